"""One snapshot that is being written.

Rules of this module: what is in the store already is not written again; nothing of it can be seen before
`Writer.commit` returns, and nothing is left of it after `Writer.abort`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import xxhash

from jupyter_gpupool.state.errors import Cancelled, StoreFull
from jupyter_gpupool.state.model import CHUNK_BYTES, Details, Environment, Finding, Manifest
from jupyter_gpupool.state.store.files import Cancel
from jupyter_gpupool.state.store.formats import Codec, digest, pack_details, seal_manifest
from jupyter_gpupool.state.store.names import checked_name
from jupyter_gpupool.state.store.packing import PackWriter, Piece, changed_meanwhile
from jupyter_gpupool.state.store.shelf import (
    CONDEMNED,
    SNAPSHOT_ENDING,
    SNAPSHOTS,
    Shelf,
    cores,
    snapshot_path,
)
from jupyter_gpupool.state.store.squeezing import Squeezer

#: Up to this size a buffer is hashed where it is, without threads.
INLINE_BYTES = 256 * 1024
#: So many chunks are hashed by one thread before it takes others.
BATCH_CHUNKS = 4
#: Batches that are hashed ahead of what is being written.
AHEAD_BATCHES = 6
#: So many bytes of copies and of compressed chunks may wait to be written.
QUEUE_BYTES = 32 * 1024 * 1024
#: Packs of at least this size tell how fast the disk is.
MEASURED_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What is said of a snapshot outside of it; the fields are those of `Manifest`."""

    name: str = ""
    note: str = ""
    notebook: str = ""
    seconds: float = 0.0
    automatic: bool = False
    total_bytes: int = 0
    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    environment: Environment
    kernel: str = ""
    hostname: str = ""
    created_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """How a snapshot is written.

    Attributes
    ----------
    copies : bool
        Copy what is new at once, so that its owner may go on; else memory that was given must stay as it is
        until `Writer.commit` returns.
    watch : bool
        Keep what is needed for `Writer.unchanged`.
    queue_bytes : int
        So many bytes of copies and compressed chunks may wait for the disk; then `Writer.put` waits.
    progress : callable or None
        Called with the number of bytes that `put` has dealt with so far.
    cancel : callable or None
        Asked often; when it says True, `Cancelled` is raised.
    """

    copies: bool = False
    watch: bool = False
    queue_bytes: int = QUEUE_BYTES
    progress: Callable[[int], None] | None = None
    cancel: Cancel | None = None


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
        self._pack = PackWriter(
            shelf.files, shelf.mint(), seed=shelf.seen.seed, queue_bytes=options.queue_bytes
        )
        self._threads = cores()
        self._squeezer = Squeezer(shelf.disk_speed, self._threads)
        self._pending: set[bytes] = set()
        self._watched: list[tuple[memoryview, bytes]] = []
        self._pool: ThreadPoolExecutor | None = None
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
        view = memoryview(buffer).cast("B")
        if len(view) <= INLINE_BYTES:
            return [self._small(view)] if len(view) else []
        chunks = [view[at : at + CHUNK_BYTES] for at in range(0, len(view), CHUNK_BYTES)]
        batches = (chunks[at : at + BATCH_CHUNKS] for at in range(0, len(chunks), BATCH_CHUNKS))
        ids: list[bytes] = []
        for pieces in self._looked(batches):
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
        seed = self._shelf.seen.seed
        return all(xxhash.xxh3_128_digest(view, seed) == quick for view, quick in self._watched)

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
        data = bytes(view)
        chunk = digest(data)
        if self._options.watch:
            self._watched.append((view, xxhash.xxh3_128_digest(data, self._shelf.seen.seed)))
        if not self._known(chunk):
            squeezed = self._squeezer.squeeze(memoryview(data))
            codec = Codec.RAW if squeezed is None else Codec.ZSTD
            self._add(Piece(chunk, data if squeezed is None else squeezed, len(data), codec))
        self._tell(len(data))
        return chunk

    def _looked(self, batches: Iterable[list[memoryview]]) -> Iterator[list[Piece]]:
        """Yield batches as pieces, in order; others are hashed meanwhile."""
        waiting: deque[Future[list[Piece]] | list[Piece]] = deque()
        for batch in batches:
            waiting.append(self._begin(batch))
            if len(waiting) > AHEAD_BATCHES:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())

    def _begin(self, batch: list[memoryview]) -> Future[list[Piece]] | list[Piece]:
        if self._threads == 1:
            return self._look(batch)
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "gpupool-hash")
            return self._pool.submit(self._look, batch)
        except RuntimeError:  # while the interpreter ends no thread can be started
            return self._look(batch)

    def _look(self, batch: list[memoryview]) -> list[Piece]:
        """Find the ids of chunks, and compress what is new and worth it."""
        return [self._piece(view) for view in batch]

    def _piece(self, view: memoryview) -> Piece:
        seen, seed = self._shelf.seen, self._shelf.seen.seed
        quick = xxhash.xxh3_128_digest(view, seed)
        if self._options.watch:
            self._watched.append((view, quick))
        chunk = seen.get(quick)
        if chunk is not None and self._known(chunk):
            return Piece(chunk, b"", len(view), Codec.RAW)
        data: bytes | memoryview = bytes(view) if self._options.copies else view
        chunk = digest(data)
        known = self._known(chunk)
        squeezed = None if known else self._squeezer.squeeze(memoryview(data))
        if xxhash.xxh3_128_digest(data, seed) == quick:
            seen.put(quick, chunk)
        elif squeezed is not None:
            raise changed_meanwhile()
        if known:
            return Piece(chunk, b"", len(view), Codec.RAW)
        if squeezed is not None:
            return Piece(chunk, squeezed, len(view), Codec.ZSTD)
        return Piece(chunk, data, len(view), Codec.RAW, b"" if self._options.copies else quick)

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
        if self._shelf.quota_bytes is not None:
            self._check_quota()
        if self._options.progress is not None:
            self._options.progress(self._done_bytes)
        if self._options.cancel is not None and self._options.cancel():
            raise Cancelled("The checkpoint was stopped; nothing was saved of it.")

    def _check_quota(self) -> None:
        quota = self._shelf.quota_bytes
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
        self._watched = []
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._held.close()


def _result(work: Future[list[Piece]] | list[Piece]) -> list[Piece]:
    return work.result() if isinstance(work, Future) else work
