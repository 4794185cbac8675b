"""What waits in an event loop, and futures.

Rules of this module: locks and queues are bound to a loop again when they are used; who waited is gone. A
future comes back with what it has come to, or is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.plain import attributes_of, new, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_WAITING = ("_waiters", "_getters", "_putters")


def _bound(value: Any, capturing: Capturing) -> Reduced:
    attributes = attributes_of(value)
    attributes.pop("_loop", None)
    waiting = 0
    for name in _WAITING:
        if attributes.get(name) is not None:
            waiting += sum(not future.done() for future in attributes[name])
            attributes[name] = deque()
    if waiting:
        capturing.note(value, FindingKind.CHANGED, f"{waiting} tasks that waited for it are gone")
    return new, (type(value),), attributes, None, None, set_attributes


def _loop(value: Any, capturing: Capturing) -> Reduced:
    if value is asyncio._get_running_loop():
        return running_loop, ()
    return capturing.lose(value, "an event loop runs in its process only", "Make it again after a restore.")


def running_loop() -> Any:
    """Find the event loop that runs here, as the one that was saved did there."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return loading.current().lost(
            "asyncio event loop", "it was the running loop, and none is running here"
        )
    return loop


def _future(value: Any, capturing: Capturing) -> Reduced:
    if not value.done():
        reason = "the work that it stands for runs in its process only"
        return capturing.lose(value, reason, "Wait for its result before the checkpoint.")
    attributes = {**attributes_of(value), "_waiters": [], "_done_callbacks": []}
    return new, (type(value),), attributes, None, None, set_attributes


RECIPES = (
    *(
        Recipe(module=module, qualname=name, reduce=_bound, subclasses=True)
        for module, names in (
            ("asyncio.queues", ("Queue",)),
            ("asyncio.locks", ("Lock", "Event", "Condition", "Semaphore", "Barrier")),
        )
        for name in names
    ),
    Recipe(module="asyncio.events", qualname="AbstractEventLoop", reduce=_loop, subclasses=True),
    Recipe(module="concurrent.futures._base", qualname="Future", reduce=_future, subclasses=True),
)
