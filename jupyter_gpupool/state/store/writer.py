"""One snapshot that is being written.

Rules of this module: what is in the store already is not written again; nothing of it can be seen before
`Writer.commit` returns, and nothing is left of it after `Writer.abort`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from jupyter_gpupool.state.errors import Cancelled, StoreFull
from jupyter_gpupool.state.model import Details, Manifest
from jupyter_gpupool.state.store.formats import pack_details, seal_manifest
from jupyter_gpupool.state.store.hashing import Hasher
from jupyter_gpupool.state.store.names import checked_name
from jupyter_gpupool.state.store.packing import PackWriter, Piece
from jupyter_gpupool.state.store.shelf import (
    CONDEMNED,
    SNAPSHOT_ENDING,
    SNAPSHOTS,
    Shelf,
    snapshot_path,
)
from jupyter_gpupool.state.store.writing import SMALL_BYTES, Label, WriteOptions

#: Packs of at least this size tell how fast the disk is.
MEASURED_BYTES = 32 * 1024 * 1024

__all__ = ["Label", "WriteOptions", "Writer"]


class Writer:
    """Writes one snapshot; a context manager that aborts unless `commit` was called.

    Parameters
    ----------
    shelf : Shelf
        The owner's part of the store.
    options : WriteOptions
        How it is written.
    held : ExitStack
        Holds the store's lock; closed at the end.
    """

    def __init__(self, shelf: Shelf, options: WriteOptions, held: ExitStack) -> None:
        self._shelf, self._options, self._held = shelf, options, held
        self._pack = PackWriter(shelf.files, shelf.mint(), seen=shelf.seen, queue_bytes=options.queue_bytes)
        self._hasher = Hasher(shelf, self._known, options)
        self._pending: set[bytes] = set()
        self._done_bytes = 0
        self._begun = time.monotonic()
        self._used_bytes = shelf.index.used_bytes() if shelf.quota_bytes is not None else 0
        self._condemned = {entry.name for entry in shelf.files.listing(CONDEMNED)}
        self._packs: set[str] = set()
        self._open = True

    @property
    def new_bytes(self) -> int:
        """Bytes that were not in the store before, as they are written; so far."""
        return self._pack.written_bytes

    def put(self, buffer: bytes | bytearray | memoryview, *, transient: bool = False) -> list[bytes]:
        """Take in a stretch of memory.

        Parameters
        ----------
        buffer : contiguous buffer
            The memory; it must stay as it is until `commit` returns, unless copies are taken.
        transient : bool
            Return only when it was written, so that the memory can be used for something else.

        Returns
        -------
        list of bytes
            The ids of its chunks, of `CHUNK_BYTES` each but for the last one.

        Raises
        ------
        StoreFull, StoreUnavailable
            If it cannot be written.
        Cancelled
            If ``cancel`` said so.
        """
        if memoryview(buffer).nbytes == 0:  # a shape with a zero in it cannot be cast
            return []
        view = memoryview(buffer).cast("B")
        if len(view) <= SMALL_BYTES:
            return [self._small(view)]
        ids: list[bytes] = []
        for pieces in self._hasher.pieces(view):
            for piece in pieces:
                ids.append(piece.id)
                self._add(piece)
            self._tell(sum(piece.nbytes for piece in pieces))
        if transient:
            self._pack.drain()
        return ids

    def unchanged(self) -> bool:
        """Say whether all memory that was given is still as it was: needs ``watch``.

        When it is not, abort, and begin again: what was saved would be a state that never was.
        """
        return self._hasher.unchanged()

    def commit(self, details: Details, label: Label) -> Manifest:
        """Finish the snapshot: when this returns it is in the store, and stays.

        Raises
        ------
        StoreFull, StoreUnavailable
            If it cannot be written; nothing is left of it then.
        InvalidValue
            If the name cannot be one.
        """
        try:
            name = checked_name(label.name) if label.name else ""
            inside = pack_details(details)
            ids = self.put(inside)
            self._pack.drain()
            self._check_quota()
            index = self._pack.finish()
            manifest = self._manifest(name, label, ids, len(inside))
            self._check_condemned()
            self._shelf.files.put(snapshot_path(manifest.id), seal_manifest(manifest, self._shelf.keys[0]))
        except BaseException:
            self.abort()
            raise
        if index is not None:
            self._shelf.index.add(self._pack.pack, index)
            if index.pack_bytes >= MEASURED_BYTES:
                self._shelf.measured(index.pack_bytes, self._pack.seconds)
        self._close()
        return manifest

    def abort(self) -> None:
        """Give up: nothing is left of it. Nothing happens after `commit`."""
        if self._open:
            try:
                self._pack.discard()
            finally:
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _small(self, view: memoryview) -> bytes:
        piece = self._hasher.small(view)
        self._add(piece)
        self._tell(piece.nbytes)
        return piece.id

    def _known(self, chunk: bytes) -> bool:
        if chunk in self._pending:
            return True
        place = self._shelf.index.get(chunk)
        if place is None or place.pack in self._condemned:
            return False
        self._packs.add(place.pack)
        return True

    def _add(self, piece: Piece) -> None:
        if not piece.data or piece.id in self._pending:  # it is there, or on its way
            return
        self._pending.add(piece.id)
        self._pack.add(piece)

    def _tell(self, nbytes: int) -> None:
        self._done_bytes += nbytes
        self._check_quota()
        if self._options.progress is not None:
            self._options.progress(self._done_bytes)
        if self._options.cancel is not None and self._options.cancel():
            raise Cancelled("The checkpoint was stopped; nothing was saved of it.")

    def _check_quota(self) -> None:
        quota, most = self._shelf.quota_bytes, self._options.most_bytes
        if most is not None and self.new_bytes > most:
            raise StoreFull(
                f"Less than {self.new_bytes:,} bytes may be written to {self._shelf.files.address} now.",
                hint="Make room on its disk, or forget snapshots and collect (%gpupool snapshots --gc).",
            )
        if quota is not None and self._used_bytes + self.new_bytes > quota:
            would = self._used_bytes + self.new_bytes
            raise StoreFull(
                f"The snapshots of {self._shelf.owner} would take {would:,} bytes "
                f"of the {quota:,} that are allowed; what was saved before is there.",
                hint="Forget a snapshot and collect (%gpupool snapshots --gc), or save less (--except).",
            )

    def _check_condemned(self) -> None:
        """Refuse to name a pack that is about to be deleted: only where nothing can be locked."""
        if time.monotonic() - self._begun < self._shelf.grace_seconds / 2:
            return
        condemned = {entry.name for entry in self._shelf.files.listing(CONDEMNED)}
        if condemned & self._packs:
            raise Cancelled(
                "The checkpoint took so long that what it shares with forgotten snapshots is being deleted.",
                hint="Take it again.",
            )

    def _manifest(self, name: str, label: Label, ids: list[bytes], details_bytes: int) -> Manifest:
        names = [entry.name.removesuffix(SNAPSHOT_ENDING) for entry in self._shelf.files.listing(SNAPSHOTS)]
        snapshot = self._shelf.mint(max(names, default=""))
        return Manifest(
            id=snapshot,
            name=name,
            note=label.note,
            notebook=label.notebook,
            owner=self._shelf.owner,
            created_ms=label.created_ms or int(snapshot[:12], 16),
            seconds=label.seconds,
            automatic=label.automatic,
            total_bytes=label.total_bytes,
            new_bytes=self.new_bytes,
            count=label.count,
            kernel=label.kernel,
            hostname=label.hostname,
            findings=label.findings,
            environment=label.environment,
            details=ids,
            details_bytes=details_bytes,
        )

    def _close(self) -> None:
        self._open = False
        self._hasher.close()
        self._held.close()
