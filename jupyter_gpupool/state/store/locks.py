"""Locks on files of this machine.

Rule of this module: a lock ends with the process that took it, however that ends, and not with its children.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_gpupool.state.store.files import Held

#: How often somebody else's lock is looked at, seconds.
LOOK_SECONDS = 0.02


@contextmanager
def locked(fd: int, *, shared: bool, wait_seconds: float) -> Iterator[Held]:
    """Hold a lock on an open file, as far as it can be had; close the file at the end.

    Parameters
    ----------
    fd : int
        The file.
    shared : bool
        Whether others may hold it at the same time.
    wait_seconds : float
        How long to wait for others.
    """
    try:
        import fcntl
    except ImportError:  # not on this platform
        try:
            yield Held.NEVER
        finally:
            os.close(fd)
        return
    try:
        yield _take(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait_seconds)
    finally:
        # A child that was forked meanwhile has the file open too: closing alone would not give it back.
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _take(fd: int, kind: int, wait_seconds: float) -> Held:
    import fcntl

    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return Held.BUSY
            time.sleep(LOOK_SECONDS)
        except OSError:  # a file system without locks
            return Held.NEVER
        else:
            return Held.YES
