"""Figures of matplotlib: one graph of parts, on a canvas of this process.

Rule of this module: making a figure again opens no window; pyplot learns of it with the process.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
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


RECIPES = (
    Recipe(module="matplotlib.figure", qualname="Figure", reduce=_figure, subclasses=True, regardless=True),
    Recipe(module="matplotlib.backend_bases", qualname="FigureCanvasBase", reduce=_canvas, subclasses=True),
    Recipe(module="matplotlib.backend_bases", qualname="FigureManagerBase", reduce=_manager, subclasses=True),
)
