"""Children that hold shares, attached by a backend like any holder.

Rule of this module: whatever happens between, a holder's processes end and its share is detached.
"""

from __future__ import annotations

import contextlib
import uuid
from types import TracebackType
from typing import Any

import msgspec

from jupyter_gpupool.backends.base import Attachment, Backend
from jupyter_gpupool.backends.hand import Hand
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.messages import ShareOrder

#: How a child that uses PyTorch is started.
TORCH = ("-m", "jupyter_gpupool.selftest.torch_child")
#: For how long PyTorch may take to be imported and to start CUDA, seconds.
TORCH_SECONDS = 90.0


class Holder:
    """A child under a share: a context manager.

    Parameters
    ----------
    backend : Backend
        Attaches it.
    share : ShareOrder
        Its share.
    command : str
        Arguments for this interpreter.
    """

    def __init__(self, backend: Backend, share: ShareOrder, *command: str) -> None:
        self._backend, self._share = backend, share
        self.hand = Hand(*command)
        self._attachment: Attachment | None = None

    @property
    def attachment(self) -> Attachment:
        """What is in force for it."""
        if self._attachment is None:
            raise GPUPoolError("The holder is not attached.")
        return self._attachment

    def attach(self) -> Attachment:
        """Put it under its share."""
        lease_id = f"lease_selftest-{uuid.uuid4().hex[:12]}"
        self._attachment = self._backend.attach(lease_id, self._share, self.hand.mark)
        return self._attachment

    def ask(self, do: str, *, within_seconds: float = 30.0, **arguments: Any) -> dict[str, Any]:
        """Have it do something."""
        return self.hand.ask(do, within_seconds=within_seconds, **arguments)

    def enter_torch(self) -> dict[str, Any]:
        """Have it do with environment and caps what a kernel does, and import PyTorch."""
        caps = msgspec.to_builtins(self.attachment.caps)
        environment = self.attachment.environment
        return self.ask("enter", environment=environment, caps=caps, within_seconds=TORCH_SECONDS)

    def kill(self) -> None:
        """End it as a crash does; first what makes that safe for others, as the pool does."""
        with contextlib.suppress(GPUPoolError):
            self._backend.quiesce(self.attachment)
        self.hand.kill()

    def release(self) -> None:
        """Take its share away; it lives on."""
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            self._backend.detach(attachment)

    def __enter__(self) -> Holder:
        try:
            self.attach()
        except BaseException:
            self.hand.kill()
            self.hand.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None and self.hand.alive():
                self.kill()
            self.hand.close()
        finally:
            self.release()


def isolation_text(attachment: Attachment) -> str:
    """Return what is in force, as one clause: "memory soft by …: 4.0 GiB; compute none by …: none"."""
    return "; ".join(
        f"{doc.resource.value} {doc.strength.value} by {doc.mechanism}: {doc.limit}"
        for doc in attachment.isolation
    )
