"""The stream of objects on its way into chunks.

Rules of this module: a large string or buffer begins a segment of its own, so that the same bytes make the
same chunks wherever they lie; what is small is packed together; with threads about, nothing is written before
the last object has been looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import xxhash

from jupyter_gpupool.state.model import Segment

#: Small objects are packed into pieces of about this size.
PIECE_BYTES = 1024 * 1024
#: A variable that leaves this much in a piece ends it, so that a change of another one leaves it as it was.
_END_BYTES = 64 * 1024
#: The pickler hands buffers from this size on over as they are.
_LARGE_BYTES = 64 * 1024
#: xxhash lets other threads run while it hashes much at once (from somewhere above 64 KiB on).
_HASH_BYTES = 16 * 1024


class Put(Protocol):
    """Takes bytes, and returns the ids of their chunks."""

    def __call__(self, buffer: bytes | bytearray | memoryview, /) -> list[bytes]:
        """Take bytes, which stay as they are."""


class Pieces:
    """What a pickler writes into.

    Parameters
    ----------
    put : callable
        Takes bytes into the store.
    held : bool
        Keep all in memory until `finish`, because writing would let other threads run.
    tick : callable, optional
        Called with every part of the stream; may raise to stop.

    Attributes
    ----------
    nbytes : int
        How much came, bytes.
    error : BaseException or None
        What the store or the tick raised: no value's fault.
    """

    def __init__(self, put: Put, *, held: bool = False, tick: Callable[[], object] | None = None) -> None:
        self._put, self._tick = put, tick
        self._held = held
        self._waiting: list[bytes | bytearray | memoryview] = []
        self._open = bytearray()
        self._segments: list[Segment] = []
        self._hash = xxhash.xxh3_128()
        self.nbytes = 0
        self.error: BaseException | None = None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Take a part of the stream."""
        try:
            return self._take(data)
        except BaseException as error:
            self.error = error
            raise

    def _take(self, data: bytes | bytearray | memoryview) -> int:
        if self._tick is not None:
            self._tick()
        length = len(data)
        self.nbytes += length
        self._digest(data)
        if length >= _LARGE_BYTES and length > len(self._open):
            self._end()
            self._whole(data)
            return length
        self._open += data
        if len(self._open) >= PIECE_BYTES:
            self._end()
        return length

    def _digest(self, data: bytes | bytearray | memoryview) -> None:
        """Hash a part: bit by bit where other threads must not run, which they may while much is hashed."""
        if not self._held or len(data) <= _HASH_BYTES:
            self._hash.update(data)
            return
        with memoryview(data) as view:
            for at in range(0, len(view), _HASH_BYTES):
                self._hash.update(view[at : at + _HASH_BYTES])

    def end_variable(self) -> str:
        """Note that a dump has ended; return a digest of its part of the stream."""
        digest: str = self._hash.hexdigest()
        self._hash.reset()
        if len(self._open) >= _END_BYTES:
            self._end()
        return digest

    def finish(self) -> list[Segment]:
        """Hand over what is left, and return the segments."""
        self._end()
        self._held = False
        for part in self._waiting:
            self._whole(part)
        self._waiting = []
        return self._segments

    def _end(self) -> None:
        if self._open:
            piece, self._open = self._open, bytearray()
            self._whole(piece)

    def _whole(self, part: bytes | bytearray | memoryview) -> None:
        if self._held:
            self._waiting.append(part)
            return
        self._segments.append(Segment(nbytes=len(part), chunks=self._put(part)))
