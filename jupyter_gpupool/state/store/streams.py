"""Chunks as a file that is read from its beginning.

Rule of this module: a few chunks are read ahead of the one that is asked for, and no more.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from jupyter_gpupool.state.store.shelf import cores

#: Chunks that are read ahead.
AHEAD_CHUNKS = 2


class ChunkFile(io.RawIOBase):
    """Chunks one after the other, as a file.

    Parameters
    ----------
    read : callable
        Returns a chunk by its id; called by several threads.
    chunks : sequence of bytes
        Their ids, in order.
    """

    def __init__(self, read: Callable[[bytes], bytes], chunks: Sequence[bytes]) -> None:
        self._read = read
        self._left = deque(chunks)
        self._ahead: deque[Future[bytes] | bytes] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._current = memoryview(b"")

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        """Fill some of ``target``; return how much, 0 at the end."""
        while not self._current:
            if not (self._left or self._ahead):
                return 0
            self._current = memoryview(self._next())
        view = memoryview(target).cast("B")
        n = min(len(view), len(self._current))
        view[:n] = self._current[:n]
        self._current = self._current[n:]
        return n

    def close(self) -> None:
        """End the threads that read ahead."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        super().close()

    def _next(self) -> bytes:
        while self._left and len(self._ahead) <= AHEAD_CHUNKS:
            self._ahead.append(self._begin(self._left.popleft()))
        first = self._ahead.popleft()
        return first.result() if isinstance(first, Future) else first

    def _begin(self, chunk: bytes) -> Future[bytes] | bytes:
        if self._pool is None and not self._left and not self._ahead:
            return self._read(chunk)
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(cores(), "gpupool-read")
            return self._pool.submit(self._read, chunk)
        except RuntimeError:  # while the interpreter ends no thread can be started
            return self._read(chunk)
