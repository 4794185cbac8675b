"""Ending the process tree of a holder: asked first, then made to.

Rules of this module: processes are signalled by pidfd, never by a number that may be another's by now;
children are written down before their parent ends, since nobody finds them afterwards; every wait is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.processtree import ProcessTable
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.cluster.peer import find

#: How long a holder may take to end after SIGTERM, seconds.
TERM_SECONDS = 5.0
#: How often a tree is looked at again while it grows under our hands.
_MOST_PASSES = 5


async def end_tree(holder: ProcessMark, apart: Collection[int]) -> None:
    """End a process and all that descend from it: SIGTERM for the process, a while, then SIGKILL for all.

    Parameters
    ----------
    holder : ProcessMark
        The process.
    apart : collection of int
        Processes that hold leases of their own: they and their children are left alone.
    """
    tree = await asyncio.to_thread(_tree, holder, apart, [])
    pidfd = find(holder)
    if pidfd is not None:
        try:
            _signal(pidfd, signal.SIGTERM)
            await _ended(pidfd)
        finally:
            os.close(pidfd)
    await asyncio.to_thread(_kill, holder, apart, tree)


def interrupt(pidfd: int) -> None:
    """Interrupt what a process runs, as the stop button does; nothing when it has ended."""
    _signal(pidfd, signal.SIGINT)


def _tree(holder: ProcessMark, apart: Collection[int], known: list[ProcessMark]) -> list[ProcessMark]:
    return ProcessTable(ProcFS()).tree(holder, known, apart)


def _kill(holder: ProcessMark, apart: Collection[int], known: list[ProcessMark]) -> None:
    """Kill all of a tree that lives, until a look finds nobody."""
    for _ in range(_MOST_PASSES):
        known = _tree(holder, apart, known)
        if not known:
            return
        for mark in known:
            pidfd = find(mark)
            if pidfd is not None:
                _signal(pidfd, signal.SIGKILL)
                os.close(pidfd)


def _signal(pidfd: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


async def _ended(pidfd: int) -> None:
    """Wait until a process has ended, at most `TERM_SECONDS`."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(TERM_SECONDS):
            await ended.wait()
    except TimeoutError:
        return
    finally:
        loop.remove_reader(pidfd)
