"""Queues that are not written in Python.

Rule of this module: what is in a queue is seen without anybody missing it in between. (Those written in
Python are saved in the usual way: their locks have a recipe.)
"""

from __future__ import annotations

import queue
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import new
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced


def _simple(value: Any, capturing: Capturing) -> Reduced:
    items: list[Any] = []
    try:
        while value.qsize():
            items.append(value.get_nowait())
    except queue.Empty:
        pass  # another thread took the last one
    for item in items:
        value.put(item)
    return new, (type(value),), items, None, None, put_all


def put_all(value: Any, items: list[Any]) -> None:
    """Put items into a queue."""
    for item in items:
        value.put(item)


RECIPES = (Recipe(module="_queue", qualname="SimpleQueue", reduce=_simple, subclasses=True),)
