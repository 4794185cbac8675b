"""Locks and what is built on them: they come back as they were held.

Rules of this module: a lock that anybody may release comes back held; one that a thread owns comes back owned
by the main thread, if that held it, and free otherwise. Threads that wait are gone, and that is said.
"""

from __future__ import annotations

import _thread
import re
import threading
from collections import deque
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.plain import plain
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

_OWNER = re.compile(r"owner=(-?\d+) count=(\d+)")


def _lock(value: Any, capturing: Capturing) -> Reduced:
    return make_lock, (value.locked(),)


def make_lock(held: bool) -> Any:
    """Make a lock, held or free."""
    lock = threading.Lock()
    if held:
        lock.acquire(blocking=False)
    return lock


def _rlock(value: Any, capturing: Capturing) -> Reduced:
    owner, count = (int(found) for found in _OWNER.search(repr(value)).groups())  # type: ignore[union-attr]
    if count and owner != threading.main_thread().ident:
        reason = "it was held by a thread that is gone after a restore, so it comes back free"
        capturing.note(value, FindingKind.CHANGED, reason)
        count = 0
    return make_rlock, (count,)


def make_rlock(count: int) -> Any:
    """Make a lock that the main thread has acquired so many times."""
    lock: Any = threading.RLock()
    if count:
        lock._acquire_restore((count, threading.main_thread().ident))
    return lock


def _without_waiters(value: Any, capturing: Capturing) -> Reduced:
    waiters = getattr(value, "_waiters", None)
    if waiters:
        capturing.note(value, FindingKind.CHANGED, f"{len(waiters)} threads that waited for it are gone")
    return plain(value, **({} if waiters is None else {"_waiters": deque()}))


def _barrier(value: Any, capturing: Capturing) -> Reduced:
    broken = value.broken
    if value.n_waiting and not broken:
        capturing.note(value, FindingKind.CHANGED, f"{value.n_waiting} threads that waited at it are gone")
    return plain(value, _count=0, _state=value._state if broken else 0)


def _local(value: Any, capturing: Capturing) -> Reduced:
    if type(value).__init__ is not object.__init__:
        reason = "what it is made of in each thread cannot be read back"
        return capturing.lose(value, reason, "Make it again after a restore.")
    return make_local, (type(value),), dict(vars(value)), None, None, set_local


def make_local(kind: type) -> Any:
    """Make an object whose attributes are each thread's own."""
    return kind()


def set_local(value: Any, attributes: dict[str, Any]) -> None:
    """Give it the attributes that it had in the thread that saved it."""
    vars(value).update(attributes)


RECIPES = (
    recipe_for(_thread.LockType, _lock),
    recipe_for(type(threading.RLock()), _rlock),
    Recipe(module="threading", qualname="Condition", reduce=_without_waiters, subclasses=True),
    Recipe(module="threading", qualname="Barrier", reduce=_barrier, subclasses=True),
    Recipe(module="_thread", qualname="_local", reduce=_local, subclasses=True),
)
