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
_STACK_BYTES = 1 << 30
_LEVELS = 1_000_000
T = TypeVar("T")


def never_ends(value: Any, registry: Registry) -> bool:
    """Tell whether taking a value apart runs into the stack's end also where the stack is empty."""
    found: list[bool] = []

    def ask() -> None:
        try:
            take_apart(value)
        except RecursionError:
            found.append(True)
        except Exception:
            found.append(False)

    if registry.reducer(type(value)) is not None:
        return False
    _in_thread(ask)
    return found == [True]


def on_large_stack(work: Callable[[bool], T]) -> T:
    """Do something on a large stack: with the pickler of C; where that has a limit of its own, in Python."""
    outcome: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        for slow in (False, True):
            try:
                outcome.append(work(slow))
                return
            except RecursionError as error:
                errors.append(error)
            except Exception as error:
                errors.append(error)
                if not _is_depth(error):
                    return
            except BaseException as error:
                errors.append(error)
                return

    limit = sys.getrecursionlimit()
    size = threading.stack_size(_STACK_BYTES)
    try:
        sys.setrecursionlimit(max(limit, _LEVELS))
        _in_thread(run)
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if not outcome:
        raise errors[-1]
    return outcome[0]


def _is_depth(error: BaseException) -> bool:
    return isinstance(error.__cause__, RecursionError)


def _in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    interrupted: KeyboardInterrupt | None = None
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt as error:  # the limits belong to the thread until it has ended
            interrupted = error
    if interrupted is not None:
        raise interrupted
