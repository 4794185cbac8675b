"""The lock that makes a process the only one of its kind in a runtime directory, and says which one it is.

Rule of this module: the lock is the kernel's (`flock`), so it ends with the process whatever happens to it;
what is written in the file only helps to find that process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.cluster.errors import AgentRuns
from jupyter_gpupool.cluster.peer import find, start_time
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import codec

#: For how long a lock that is taken is tried again, seconds: whoever only looks has it for an instant.
TRY_SECONDS = 1.0


def hold(path: Path) -> int:
    """Take the lock and write down who has it; it lasts until the descriptor is closed.

    Raises
    ------
    AgentRuns
        If another process has it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + TRY_SECONDS
    while not _lock(handle):
        if time.monotonic() > until:
            os.close(handle)
            raise AgentRuns(f"Another agent runs in {path.parent}.", hint="Nothing needs to be done.")
        time.sleep(0.05)
    mark = ProcessMark(pid=os.getpid(), start_ticks=start_time(os.getpid()) or 0)
    os.ftruncate(handle, 0)
    os.pwrite(handle, codec.encode(mark), 0)
    return handle


def holder(path: Path) -> int | None:
    """Return a pidfd of the process that has the lock; None when nobody has, or did not sign yet."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        if _lock(handle):
            return None
        return find(codec.decode(os.pread(handle, 4096, 0), ProcessMark))
    except GPUPoolError:
        return None
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
