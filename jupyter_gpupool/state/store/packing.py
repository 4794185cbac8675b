"""One new pack, written beside what fills it.

Rules of this module: chunks are written in the order they come in, by one thread; memory that is not the
store's own is looked at again after it was written, so that no chunk is other than its id says.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass

import xxhash

from jupyter_gpupool.state.errors import CaptureFailed, StateError
from jupyter_gpupool.state.store.files import Files, Sink
from jupyter_gpupool.state.store.formats import (
    ALIGNED_FROM_BYTES,
    PACK_MAGIC,
    PAGE_BYTES,
    Codec,
    Entry,
    PackIndex,
    seal_index,
)
from jupyter_gpupool.state.store.index import index_path, pack_path
from jupyter_gpupool.state.store.shelf import Seen

#: Small chunks are gathered to writes of this size.
GATHER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk to write.

    Attributes
    ----------
    id : bytes
        Its id.
    data : bytes or memoryview
        What is written: the chunk, or the chunk compressed.
    nbytes : int
        The chunk's length.
    codec : Codec
        How it is written.
    quick : bytes
        Its quick hash where ``data`` is somebody else's memory; empty where it is the store's own.
    """

    id: bytes
    data: bytes | memoryview
    nbytes: int
    codec: Codec
    quick: bytes = b""


class PackWriter:
    """Writes one pack.

    Parameters
    ----------
    files : Files
        The owner's files.
    pack : str
        Its id.
    seen : Seen
        Takes in what was written of memory that is not the store's own.
    queue_bytes : int
        So many bytes of the store's own memory may wait to be written.
    """

    def __init__(self, files: Files, pack: str, *, seen: Seen, queue_bytes: int) -> None:
        self.pack = pack
        self.written_bytes = 0
        self.seconds = 0.0
        self._files, self._seen, self._limit = files, seen, queue_bytes
        self._sink: Sink | None = None
        self._gathered = bytearray()
        self._entries: list[Entry] = []
        self._turn = threading.Condition()
        self._queue: deque[Piece] = deque()
        self._owned = self._busy = 0
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._closing = self._finished = False

    def add(self, piece: Piece) -> None:
        """Have a chunk written, now or soon."""
        if self._thread is None and (len(piece.data) < GATHER_BYTES or not self._start()):
            self._write(piece)
            return
        with self._turn:
            self._turn.wait_for(lambda: self._error or self._owned <= self._limit)
            self._check()
            self._queue.append(piece)
            self._owned += 0 if piece.quick else len(piece.data)
            self._turn.notify_all()

    def drain(self) -> None:
        """Wait until everything that was given is written."""
        with self._turn:
            self._turn.wait_for(lambda: self._error or not (self._queue or self._busy))
            self._check()

    def finish(self) -> PackIndex | None:
        """Bring the pack and its index to the disk; None when there is nothing in it."""
        self.drain()
        self._stop()
        if self._sink is None and not self._entries:
            return None
        self._flush()
        assert self._sink is not None  # noqa: S101 - made by what was flushed
        start = time.perf_counter()
        sink, index = self._sink, PackIndex(self.written_bytes, self._entries)
        sink.finish()
        self._sink, self._finished = None, True
        self.seconds += time.perf_counter() - start
        self._files.put(index_path(self.pack, 0), seal_index(index))
        return index

    def discard(self) -> None:
        """Stop, and remove what was written."""
        with self._turn:
            self._queue.clear()
        self._stop()
        if self._sink is not None:
            self._sink.discard()
            self._sink = None
        elif self._finished:
            with contextlib.suppress(StateError):  # what is left is collected
                self._files.remove(index_path(self.pack, 0))
                self._files.remove(pack_path(self.pack))

    def _start(self) -> bool:
        """Start the thread; not possible any more while the interpreter ends."""
        thread = threading.Thread(target=self._run, name="gpupool-pack", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _stop(self) -> None:
        if self._thread is not None:
            with self._turn:
                self._closing = True
                self._turn.notify_all()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    return
                piece = self._queue.popleft()
                self._busy = 1
            try:
                self._write(piece)
            except BaseException as error:
                with self._turn:
                    self._error = error
                    self._queue.clear()
            finally:
                with self._turn:
                    self._busy = 0
                    self._owned -= 0 if piece.quick else len(piece.data)
                    self._turn.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _write(self, piece: Piece) -> None:
        large = len(piece.data) >= ALIGNED_FROM_BYTES
        if self._sink is None and not self._gathered:
            self._gathered += PACK_MAGIC
        position = self.written_bytes + len(self._gathered)
        if large and piece.codec is Codec.RAW and position % PAGE_BYTES:
            self._gathered += bytes(-position % PAGE_BYTES)
            position += -position % PAGE_BYTES
        self._entries.append(Entry(piece.id, position, len(piece.data), piece.nbytes, piece.codec))
        if large:
            self._flush()
            self._put(piece.data)
            self._look_again(piece, piece.data)
            return
        data = bytes(piece.data)
        self._look_again(piece, data)
        self._gathered += data
        if len(self._gathered) >= GATHER_BYTES:
            self._flush()

    def _look_again(self, piece: Piece, written: bytes | memoryview) -> None:
        """Refuse somebody else's memory that is not what its id says any more; remember it else."""
        if piece.quick:
            if xxhash.xxh3_128_digest(written, self._seen.seed) != piece.quick:
                raise changed_meanwhile()
            self._seen.put(piece.quick, piece.id)

    def _flush(self) -> None:
        if self._gathered:
            self._put(self._gathered)
            self._gathered = bytearray()

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        start = time.perf_counter()
        if self._sink is None:
            self._sink = self._files.create(pack_path(self.pack))
        self._sink.write(data)
        self.seconds += time.perf_counter() - start
        self.written_bytes += len(data)


def changed_meanwhile() -> CaptureFailed:
    """Return the error that says that memory did not stay as it was."""
    return CaptureFailed(
        "Memory changed while it was being saved, so nothing was saved: a thread is at work on it.",
        hint="Let the thread rest while the checkpoint is taken, and try again.",
    )
