"""What the store needs of a file system.

Rules of this module: paths are relative, with ``/``; a file is either whole under its name or not there,
except for what `Files.create` makes, which counts only once something whole names it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import NamedTuple, Protocol

#: What is written and read: anything contiguous.
Bytes = bytes | bytearray | memoryview


class Held(Enum):
    """What asking for a lock of the store has given."""

    YES = "yes"
    """It is held."""
    BUSY = "busy"
    """Others hold it, and did not give it back in time."""
    NEVER = "never"
    """Nothing can be locked there: what is young is left alone instead."""


class Listed(NamedTuple):
    """One file of a folder.

    Attributes
    ----------
    name : str
        Its name within the folder.
    nbytes : int
        Its length.
    used_bytes : int
        What it takes of the disk; less than its length where it has holes.
    changed_seconds : float
        When it was written last: seconds since the epoch.
    """

    name: str
    nbytes: int
    used_bytes: int
    changed_seconds: float


class Source(Protocol):
    """One file that is read, by several threads."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill ``target`` from ``offset`` on; raise `EOFError` where the file is too short."""

    def close(self) -> None:
        """Give it back."""


class Sink(Protocol):
    """One new file that is written from its beginning to its end, by one thread."""

    def write(self, data: Bytes) -> None:
        """Write all of ``data``."""

    def finish(self) -> None:
        """Make it last: when this returns, it is there after a power cut."""

    def discard(self) -> None:
        """Remove what was written, as far as that can be done."""


class Files(Protocol):
    """One owner's files."""

    address: str
    """Where they are, without credentials, as a person would write it."""
    punches: bool
    """Whether parts of a file can be given back to the disk."""

    def listing(self, folder: str) -> list[Listed]:
        """List the files of a folder; none where there is no such folder."""

    def read(self, path: str) -> bytes:
        """Return a whole file; raise `FileNotFoundError` where there is none."""

    def open(self, path: str) -> Source:
        """Open a file to read; raise `FileNotFoundError` where there is none."""

    def create(self, path: str) -> Sink:
        """Begin a new file."""

    def put(self, path: str, data: bytes, *, lasting: bool = True) -> None:
        """Write a small file, whole or not at all, also when it was there before."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens where there is none."""

    def lock(self, *, shared: bool, wait_seconds: float) -> AbstractContextManager[Held]:
        """Hold the store: shared by those that write, alone by who takes things away."""

    def punch(self, path: str, ranges: list[tuple[int, int]]) -> bool:
        """Give ranges (offset, length) of a file back to the disk; False where it is in use or impossible."""

    def local_path(self, path: str) -> str | None:
        """Return where a file is on this machine, to map it; None where it is elsewhere."""


#: Says whether to stop.
Cancel = Callable[[], bool]
