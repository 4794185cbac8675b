"""Figures that pyplot knows, and which of them is the current one.

Rule of this module: figures are values of the stream like others; here is only what pyplot knows of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo


def _known() -> Any:
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return None if helpers is None or "matplotlib.pyplot" not in sys.modules else helpers.Gcf


def _take(tell: Tell) -> list[tuple[Any, Any]]:
    known = _known()
    managers = [] if known is None else list(known.figs.items())  # the last one is the current one
    return [(number, manager.canvas.figure) for number, manager in managers]


def _put(value: list[tuple[Any, Any]], tell: Tell) -> Undo:
    changes = Changes("figures", tell)
    if not value and _known() is None:
        return changes.undo
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        changes.failed("matplotlib.pyplot", f"matplotlib cannot be imported here: {error}")
        return changes.undo
    known = _known()
    before = dict(known.figs)

    def back() -> None:
        known.figs.clear()
        known.figs.update(before)

    changes.make("matplotlib.pyplot", known.figs.clear, back)
    for number, figure in value:
        changes.make(f"matplotlib.pyplot.figure({number})", _managing(pyplot, number, figure), lambda: None)
    return changes.undo


def _managing(pyplot: Any, number: Any, figure: Any) -> Any:
    def work() -> None:
        manager = pyplot._get_backend_mod().new_figure_manager_given_figure(number, figure)
        _known()._set_new_active_manager(manager)

    return work


SECTION = Section(name="figures", take=_take, put=_put)
