"""Tells the pool which snapshots there are, so that a browser and other nodes can know.

Rules of this module: no pool is started and nobody waits for one; what could not be told is told with the
next save. Notes and paths go to the owner's own index only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.asking import asking
from jupyter_gpupool.kernel.snapshots.keys import ASK_SECONDS, pool_is_near
from jupyter_gpupool.kernel.snapshots.words import restore_seconds
from jupyter_gpupool.protocol.limits import ADDRESS, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpupool.protocol.documents import SnapshotDoc, SnapshotsReport
    from jupyter_gpupool.state.model import Manifest

#: Of how many snapshots the pool is told; the newest ones.
MOST = 80
#: Longest message that a pool takes, bytes, with room for what is around it.
_MESSAGE_BYTES = 60_000


def report(
    store_url: str, manifests: Iterable[Manifest], last_words: Callable[[Manifest], bool]
) -> SnapshotsReport:
    """Put together what is told.

    Parameters
    ----------
    store_url : str
        Where they are, without credentials.
    manifests : iterable of Manifest
        Newest first.
    last_words : callable
        Tells whether one is what is left of its kernel, should that die.
    """
    from jupyter_gpupool.protocol.codec import encode
    from jupyter_gpupool.protocol.documents import SnapshotDoc, SnapshotsReport

    docs = [
        SnapshotDoc(
            id=it.id,
            name=printable(it.name),
            created_ms=it.created_ms,
            note=printable(it.note),
            notebook=printable(it.notebook, ADDRESS),
            kernel_id=printable(it.kernel),
            hostname=printable(it.hostname),
            automatic=it.automatic,
            total_bytes=it.total_bytes,
            new_bytes=it.new_bytes,
            count=it.count,
            restore_seconds=restore_seconds(it.total_bytes),
            last_words=last_words(it),
        )
        for _, it in zip(range(MOST), manifests, strict=False)
    ]
    while len(encode(docs)) > _MESSAGE_BYTES:
        docs = docs[: len(docs) // 2]
    return SnapshotsReport(store=printable(store_url, ADDRESS), snapshots=docs)


def tell(body: SnapshotsReport) -> bool:
    """Tell the pool, if there is one; False when it did not take it."""
    if not pool_is_near():
        return False
    with contextlib.suppress(GPUPoolError, OSError), asking(ASK_SECONDS) as client:
        client.report_snapshots(_merged(body, client.snapshots()))
        return True
    return False


def _merged(body: SnapshotsReport, known: list[SnapshotDoc]) -> SnapshotsReport:
    """Leave what kernels of other machines said of their last words as it is."""
    import socket

    import msgspec

    here, said = socket.gethostname(), {doc.id: doc.last_words for doc in known}
    docs = [
        doc if doc.hostname == here else msgspec.structs.replace(doc, last_words=said.get(doc.id, False))
        for doc in body.snapshots
    ]
    return msgspec.structs.replace(body, snapshots=docs)
