"""What a stretch of memory is made of, in chunks, and which of them are new.

Rules of this module: a quick hash says whether a chunk is one that this process has seen; only blake3 gives
it its name. What is hashed is what is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import xxhash

from jupyter_gpupool.state.store.formats import Codec, digest
from jupyter_gpupool.state.store.packing import Piece, changed_meanwhile
from jupyter_gpupool.state.store.shelf import Shelf, cores
from jupyter_gpupool.state.store.squeezing import Squeezer
from jupyter_gpupool.state.store.writing import WriteOptions

#: So many chunks are hashed by one thread before it takes others.
BATCH_CHUNKS = 2
#: Batches that are hashed ahead of what is being written.
AHEAD_BATCHES = 3


class Hasher:
    """Looks at memory for one save.

    Parameters
    ----------
    shelf : Shelf
        The owner's part of the store.
    known : callable
        Says whether a chunk is in the store, or on its way there; called by several threads.
    options : WriteOptions
        How the snapshot is written.
    """

    def __init__(self, shelf: Shelf, known: Callable[[bytes], bool], options: WriteOptions) -> None:
        self._shelf, self._known = shelf, known
        self._copies, self._watch, self._chunk_bytes = options.copies, options.watch, options.chunk_bytes
        self._threads = cores()
        self._squeezer = Squeezer(shelf.disk_speed, self._threads)
        self._watched: list[tuple[memoryview, bytes]] = []
        self._pool: ThreadPoolExecutor | None = None

    def small(self, view: memoryview) -> Piece:
        """Return a small stretch of memory as one chunk, copied; without data where it is known."""
        data = bytes(view)
        chunk = digest(data)
        if self._watch:
            self._watched.append((view, xxhash.xxh3_128_digest(data, self._shelf.seen.seed)))
        if self._known(chunk):
            return Piece(chunk, b"", len(data), Codec.RAW)
        squeezed = self._squeezer.squeeze(memoryview(data))
        if squeezed is not None:
            return Piece(chunk, squeezed, len(data), Codec.ZSTD)
        return Piece(chunk, data, len(data), Codec.RAW)

    def unchanged(self) -> bool:
        """Say whether all memory that was looked at is still as it was."""
        seed = self._shelf.seen.seed
        return all(xxhash.xxh3_128_digest(view, seed) == quick for view, quick in self._watched)

    def close(self) -> None:
        """End the threads."""
        self._watched = []
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def pieces(self, view: memoryview) -> Iterator[list[Piece]]:
        """Yield the chunks of a large stretch of memory in order, while others are hashed."""
        size = self._chunk_bytes
        chunks = [view[at : at + size] for at in range(0, len(view), size)]
        batches = (chunks[at : at + BATCH_CHUNKS] for at in range(0, len(chunks), BATCH_CHUNKS))
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
        if self._watch:
            self._watched.append((view, quick))
        chunk = seen.get(quick)
        if chunk is not None and self._known(chunk):
            return Piece(chunk, b"", len(view), Codec.RAW)
        data: bytes | memoryview = bytes(view) if self._copies else view
        chunk = digest(data)
        known = self._known(chunk)
        squeezed = None if known else self._squeezer.squeeze(memoryview(data))
        if squeezed is None and not known and not self._copies:  # looked at again when it was written
            return Piece(chunk, data, len(view), Codec.RAW, quick)
        if xxhash.xxh3_128_digest(data, seed) == quick:
            seen.put(quick, chunk)
        elif squeezed is not None and not self._copies:
            raise changed_meanwhile()
        if known:
            return Piece(chunk, b"", len(view), Codec.RAW)
        if squeezed is not None:
            return Piece(chunk, squeezed, len(view), Codec.ZSTD)
        return Piece(chunk, data, len(view), Codec.RAW)


def _result(work: Future[list[Piece]] | list[Piece]) -> list[Piece]:
    return work.result() if isinstance(work, Future) else work
