"""Figures of matplotlib: one graph of parts, on a canvas of this process.

Rule of this module: making a figure again opens no window; pyplot learns of it with the process.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.naming import is_notebooks
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced


def _figure(value: Any, capturing: Capturing) -> Reduced:
    found: Any = value.__reduce_ex__(5)
    made, args, state, *more = found
    if isinstance(state, dict):
        state = {name: part for name, part in state.items() if name != "_restore_to_pylab"}
    return made, args, state, *more


def _canvas(value: Any, capturing: Capturing) -> Reduced:
    return getattr, (value.figure, "canvas")


def _manager(value: Any, capturing: Capturing) -> Reduced:
    return capturing.lose(value, "it manages a window of its process", "Use plt.figure(NUMBER) instead.")


def _callbacks(value: Any, capturing: Capturing) -> Reduced:
    """Take what is called at events apart: matplotlib itself drops what it did not connect."""
    made, args, state, *more = value.__reduce_ex__(5)
    kept = {
        signal: {cid: function for cid, proxy in table.items() if _is_users(function := proxy())}
        for signal, table in value.callbacks.items()
    }
    own = state["callbacks"]
    state = {**state, "callbacks": {signal: {**own.get(signal, {}), **kept[signal]} for signal in kept}}
    return made, args, state, *more


def _is_users(function: Any) -> bool:
    """Tell whether somebody connected it who is no part of matplotlib's own figure."""
    owner = type(getattr(function, "__self__", None))
    return function is not None and (is_notebooks(function) or owner.__module__ == "matplotlib.widgets")


RECIPES = (
    Recipe(
        module="matplotlib.cbook",
        qualname="CallbackRegistry",
        reduce=_callbacks,
        subclasses=True,
        regardless=True,
    ),
    Recipe(module="matplotlib.figure", qualname="Figure", reduce=_figure, subclasses=True, regardless=True),
    Recipe(module="matplotlib.backend_bases", qualname="FigureCanvasBase", reduce=_canvas, subclasses=True),
    Recipe(module="matplotlib.backend_bases", qualname="FigureManagerBase", reduce=_manager, subclasses=True),
)
