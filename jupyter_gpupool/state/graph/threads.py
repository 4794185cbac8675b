"""One moment for threads of Python: nobody changes the namespace while it is looked at.

Rule of this module: the switch interval is put back whatever happens.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
#: Longer than any pass over a namespace, seconds.
_LONG_SECONDS = 3600.0


def users_threads() -> list[threading.Thread]:
    """Return the threads that may run code of the user."""
    frames = sys._current_frames()
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


@contextmanager
def one_moment() -> Iterator[bool]:
    """Keep other threads from running Python meanwhile; say whether there are none of the user's."""
    alone = not users_threads()
    interval = sys.getswitchinterval()
    if not alone:
        sys.setswitchinterval(_LONG_SECONDS)
    try:
        yield alone
    finally:
        sys.setswitchinterval(interval)
