"""Comparing with its hashes what was mapped from files without being read, once nobody waits for it.

Rules of this module: it reads the files, not the memory, which its owner may have changed; it takes a bounded
share of one core's time, and leaves out what nobody has any more; each variable is spoken of once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from jupyter_gpupool.state.store.formats import digest

#: The share of one core's time that it takes.
SHARE = 0.25


class Open(Protocol):
    """A file that is held open."""

    fd: int


class Place(Protocol):
    """A stretch of a file."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def offset(self) -> int:
        """Where it begins."""

    @property
    def chunks(self) -> tuple[tuple[bytes, int], ...]:
        """Ids and lengths of what lies in it, one after the other."""


class Stretch(Protocol):
    """Memory that was mapped."""

    @property
    def variable(self) -> str:
        """Whose it is."""

    @property
    def places(self) -> Sequence[Place]:
        """Where it was mapped from."""

    def files(self) -> Sequence[Open] | None:
        """Return the file of each place; None when nobody has the memory any more."""


class Rechecker:
    """Compares the files behind mapped memory with hashes.

    Parameters
    ----------
    stretches : iterable of Stretch
        What was mapped.
    snapshot : str
        What the snapshot is called.
    say : callable
        Is given a sentence for each variable that is damaged.
    share : float
        Of one core's time, at most.
    """

    def __init__(
        self, stretches: Iterable[Stretch], snapshot: str, say: Callable[[str], None], *, share: float = SHARE
    ) -> None:
        self._stretches, self._snapshot, self._say = list(stretches), snapshot, say
        self._rest = 1 / share - 1
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End it soon."""
        self._stopped.set()

    def run(self) -> None:
        """Compare everything once."""
        said: set[str] = set()
        while self._stretches and not self._stopped.is_set():
            stretch = self._stretches.pop(0)
            if stretch.variable in said:
                continue
            problem = self._problem(stretch)
            if problem:
                said.add(stretch.variable)
                self._say(problem)

    def _problem(self, stretch: Stretch) -> str:
        """Return what is wrong with memory, as a sentence; empty for nothing."""
        for number, place in enumerate(stretch.places):
            offset = place.offset
            for chunk, nbytes in place.chunks:
                began = time.perf_counter()
                files = stretch.files()
                if files is None:
                    return ""
                right = _is_right(files[number].fd, offset, nbytes, chunk)
                del files  # it is not held while this waits
                if not right:
                    return self._sentence(stretch.variable, place.path, offset)
                if self._stopped.wait((time.perf_counter() - began) * self._rest):
                    return ""
                offset += nbytes
        return ""

    def _sentence(self, variable: str, path: str, offset: int) -> str:
        whose = f"The variable {variable}" if variable.isidentifier() else "A value"
        return (
            f"{whose}, which was restored lazily from the snapshot {self._snapshot}, is not what was saved: "
            f"the file {path} is damaged at byte {offset}. Do not rely on it, nor on what was computed from "
            f"it; restore an older snapshot."
        )


def _is_right(fd: int, offset: int, nbytes: int, chunk: bytes) -> bool:
    try:
        return digest(os.pread(fd, nbytes, offset)) == chunk
    except OSError:
        return False
