"""Structures that are deeper than the stack, and values whose own code never ends.

Rules of this module: the limits of this process are put back whatever happens; a large stack is that of a
thread of its own, in the context of the one that asked.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from jupyter_gpupool.state.graph.usual import take_apart
from jupyter_gpupool.state.recipes.registry import Registry

#: Address space for the stack; only what is used of it takes memory.
_STACK_BYTES = (2 << 30, 512 << 20, 64 << 20)
#: A level of the pickler, or of code that calls itself through it, takes up to this much.
_LEVEL_BYTES = 2048
T = TypeVar("T")


def never_ends(value: Any, registry: Registry) -> bool:
    """Tell whether taking a value apart runs into the stack's end also where the stack is empty."""
    if registry.reducer(type(value)) is not None:
        return False
    try:
        _in_thread(lambda: take_apart(value))
    except RecursionError:
        return True
    except Exception:
        return False
    return False


def on_large_stack(work: Callable[[bool], T]) -> T:
    """Do something on a large stack: by the pickler of C, or in Python where that has a limit of its own.

    Raises
    ------
    RecursionError
        If that is not enough either.
    """
    slow = (3, 12) <= sys.version_info < (3, 14)
    limit, size = sys.getrecursionlimit(), threading.stack_size()
    try:
        for stack_bytes in _STACK_BYTES:
            threading.stack_size(stack_bytes)
            sys.setrecursionlimit(max(limit, stack_bytes // _LEVEL_BYTES))
            try:
                return _in_thread(lambda: work(slow))
            except _NoThread:
                continue
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    raise RecursionError("there is no memory for a larger stack")


class _NoThread(Exception):
    """Raised when a thread with this stack cannot be started."""


def _in_thread(work: Callable[[], T]) -> T:
    """Do something in a thread of its own, and wait for it."""
    outcome: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise _NoThread from error
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt as error:  # the limits belong to the thread until it has ended
            errors.append(error)
    if errors:
        raise errors[-1]
    return outcome[0]
