"""Memory that is mapped from files of the store instead of being read.

Rules of this module: what is mapped is private to this process, so that writing it never reaches the store; a
file stays open and locked for as long as anything looks at what was mapped from it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_gpupool.state.graph.loading import being_made

if TYPE_CHECKING:
    from jupyter_gpupool.state.model import Root

#: Smaller roots are read: a map costs pages and an open file.
LEAST_BYTES = 1024 * 1024
#: How often it is asked again where chunks lie, while they are moved.
_TRIES = 3
_FIXED, _NO_RESERVE = 0x10, 0x4000
_FAILED = ctypes.c_void_p(-1).value


@cache
def _libc() -> Any:
    """Return the functions of the C library that map and unmap."""
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    numbers = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    found.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *numbers)
    found.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return found


class Place(Protocol):
    """A stretch of a file that can be mapped."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def offset(self) -> int:
        """Where it begins: on a page."""

    @property
    def nbytes(self) -> int:
        """Its length."""

    @property
    def chunks(self) -> tuple[tuple[bytes, int], ...]:
        """Ids and lengths of what lies in it, one after the other."""


class _Locked:
    """An open file that nobody may take bytes from."""

    def __init__(self, path: str) -> None:
        import fcntl

        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.fd).atexit = False
        fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Memory that was mapped.

    Attributes
    ----------
    variable : str
        The first that asked for it.
    places : sequence of Place
        Where it was mapped from.
    memory : weak reference
        The memory, for as long as anything looks at it.
    """

    variable: str
    places: Sequence[Place]
    memory: weakref.ref[Any]

    def files(self) -> Sequence[_Locked] | None:
        """Return the file of each place; None when nobody has the memory any more."""
        found = self.memory()
        return None if found is None else found.files


class Mapped:
    """Maps roots of a snapshot.

    Parameters
    ----------
    places : callable
        Says where chunks lie, in their order; None where they cannot be mapped.
    """

    def __init__(self, places: Callable[[Sequence[bytes]], Sequence[Place] | None]) -> None:
        self._places = places
        self._files: dict[str, _Locked] = {}
        #: What was mapped, and not compared with its hashes.
        self.stretches: list[Stretch] = []

    def map(self, root: Root) -> memoryview | None:
        """Map a root, private to this process and writable; None where it has to be read."""
        if root.nbytes < LEAST_BYTES:
            return None
        places = self._places(root.chunks)
        try:
            for _ in range(_TRIES):
                if not places:
                    return None
                files = [self._file(place.path) for place in places]
                held, places = places, self._places(root.chunks)
                if held == places:  # nothing was moved before the files were held
                    return self._noted(places, _put_together(places, files, root.nbytes))
        except OSError:
            return None
        return None

    def _noted(self, places: Sequence[Place], whole: Any) -> memoryview:
        self.stretches.append(Stretch(being_made(), places, weakref.ref(whole)))
        return memoryview(whole).cast("B")

    def _file(self, path: str) -> _Locked:
        if path not in self._files:
            self._files[path] = _Locked(path)
        return self._files[path]


def _put_together(places: Sequence[Place], files: Sequence[_Locked], nbytes: int) -> Any:
    """Map places one behind the other."""
    length = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    start = _map(None, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
    whole: Any = (ctypes.c_char * nbytes).from_address(start)
    whole.files = files
    weakref.finalize(whole, _libc().munmap, start, length).atexit = False
    at = start
    for place, file in zip(places, files, strict=True):
        _map(at, place.nbytes, mmap.MAP_PRIVATE | _FIXED | _NO_RESERVE, file.fd, place.offset)
        at += place.nbytes
    return whole


def _map(at: int | None, nbytes: int, flags: int, fd: int, offset: int) -> int:
    found = _libc().mmap(at, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, offset)
    if found == _FAILED:
        raise OSError(ctypes.get_errno(), "mapping a file of the store failed")
    return int(found)
