"""What nodes may ask the pool about their certificates, on the control plane.

Rules of this module: who asks is what the certificate of the connection says; nothing raises, since Dask
would send a pickle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.cluster.authority.authority import Authority
from jupyter_gpupool.cluster.tls import Peer
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec
from jupyter_gpupool.protocol.join import TrustAnswer

logger = logging.getLogger(__name__)


class RenewalDesk:
    """Answers nodes.

    Parameters
    ----------
    authority : Authority
        The pool's.
    """

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        """What nodes may call, by name."""
        return {"gpupool_trust": self._trust, "gpupool_renew": self._renew}

    async def _trust(self, *, peer: Peer) -> bytes | None:
        """Tell whether a certificate is due."""
        return await self._answer(peer, lambda: TrustAnswer(renew=self._authority.due(peer)))

    async def _renew(self, *, csr: str, peer: Peer) -> bytes | None:
        """Make the next one."""
        return await self._answer(peer, lambda: self._authority.renew(peer, csr))

    async def _answer(self, peer: Peer, make: Callable[[], object]) -> bytes | None:
        try:
            return codec.encode(await asyncio.to_thread(make))
        except (GPUPoolError, ValueError) as error:
            logger.warning("The certificate of node %s cannot be renewed: %s", peer.node_id, error)
            return None
