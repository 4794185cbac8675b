"""One moment for threads of Python: nobody changes the namespace while it is looked at.

Rules of this module: the switch interval is put back whatever happens; who looks at the namespace meanwhile
must do nothing that lets go of the interpreter's lock, and where something did (a class of the user may), the
look does not count.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

#: Modules whose threads never touch a user's values.
_QUIET = (
    "ipykernel",
    "zmq",
    "tornado",
    "IPython",
    "jupyter_gpupool",
    "debugpy",
    "pydevd",
    "_pydevd",
    "_pytest",
    "xdist",
    "execnet",
    "tqdm",
)
#: How long another thread may be kept waiting for its turn, seconds. A thread that got one nevertheless keeps
#: everybody else waiting as long, so this is how long a pass may hang, too.
_TURN_SECONDS = 0.5

#: Where threads stand: for each, its frame and the instruction in it.
Standing = dict[int, tuple[int, int]]


def _frames() -> dict[int, FrameType]:
    """Return where each thread stands.

    No garbage is collected meanwhile: before Python 3.11.5 that can stop all threads for ever, because the
    list of threads is locked while objects are made (https://github.com/python/cpython/issues/106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def users_threads() -> list[threading.Thread]:
    """Return the threads that may run code of the user."""
    frames = _frames()
    me = threading.get_ident()
    return [
        thread
        for thread in threading.enumerate()
        if thread.ident != me
        and thread is not threading.main_thread()
        and not _is_quiet(frames.get(thread.ident or 0))
    ]


def _is_quiet(frame: FrameType | None) -> bool:
    """Tell whether a thread runs in a tool that has nothing to do with the user's values."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if isinstance(module, str) and module.partition(".")[0] in _QUIET:
            return True
        frame = frame.f_back
    return False


def standing(several: list[threading.Thread]) -> Standing:
    """Say where threads stand; it is the same again as long as none of them has run."""
    frames = _frames()
    found = ((thread.ident or 0, frames.get(thread.ident or 0)) for thread in several)
    return {ident: (id(frame), frame.f_lasti) for ident, frame in found if frame is not None}


class Moment:
    """A stretch in which other threads are kept from running Python.

    Attributes
    ----------
    alone : bool
        Whether there are none of the user's.
    """

    def __init__(self, several: list[threading.Thread]) -> None:
        self.alone = not several
        self._threads = several
        self._before = standing(several)

    def broken(self) -> bool:
        """Tell whether some thread of the user has run nevertheless."""
        return standing(self._threads) != self._before


class _Turns:
    """How long turns of threads are: several may want them long at once, and the last one puts that back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._before = 0.0

    @contextmanager
    def long(self) -> Iterator[None]:
        """Have long turns meanwhile."""
        with self._lock:
            if not self._wanted:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_TURN_SECONDS)
            self._wanted += 1
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if not self._wanted:
                    sys.setswitchinterval(self._before)


_turns = _Turns()


@contextmanager
def one_moment() -> Iterator[Moment]:
    """Keep other threads from running Python meanwhile."""
    several = users_threads()
    with _turns.long() if several else nullcontext():
        yield Moment(several)
