"""Threads: those that have ended, or have not begun, come back; what runs is lost.

Rule of this module: no thread is ever started.
"""

from __future__ import annotations

import threading
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import attributes_of, new, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

#: What a thread has of its process.
_OF_THE_PROCESS = frozenset(
    {
        "_started",
        "_is_stopped",
        "_tstate_lock",
        "_handle",
        "_os_thread_handle",
        "_stderr",
        "_invoke_excepthook",
    }
)


def _thread(value: Any, capturing: Capturing) -> Reduced:
    if value is threading.main_thread():
        return threading.main_thread, ()
    if value.is_alive() or not getattr(value, "_initialized", False):
        return capturing.lose(value, "a thread runs in its process only", "Start it again after a restore.")
    attributes = {name: found for name, found in attributes_of(value).items() if name not in _OF_THE_PROCESS}
    has_ended = bool(value._started.is_set())
    return new, (type(value),), (attributes, has_ended), None, None, fill_thread


def fill_thread(value: Any, state: tuple[dict[str, Any], bool]) -> None:
    """Give a thread what it had; one that has ended is not to be started again."""
    attributes, has_ended = state
    threading.Thread.__init__(value)
    set_attributes(value, attributes)
    if not has_ended:
        return
    value._started.set()
    handle = getattr(value, "_handle", None) or getattr(value, "_os_thread_handle", None)
    if handle is not None:  # Python 3.13 and later
        handle._set_done()
    else:
        value._is_stopped = True


RECIPES = (Recipe(module="threading", qualname="Thread", reduce=_thread, subclasses=True),)
