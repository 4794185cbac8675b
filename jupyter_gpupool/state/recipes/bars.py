"""Progress bars of tqdm: they go on counting where they were, and so does their clock.

Rule of this module: nothing is printed by a restore; the bar is drawn again when it moves.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import attributes_of, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_REMADE = frozenset({"sp", "fp"})
_TIMES = ("start_t", "last_print_t")


def _bar(value: Any, capturing: Capturing) -> Reduced:
    if hasattr(value, "container"):
        reason = "it is shown by a widget, which lives in the page of its kernel"
        return capturing.lose(value, reason, "Make it again; `initial=` lets it begin where this one was.")
    attributes = {name: found for name, found in attributes_of(value).items() if name not in _REMADE}
    clock = getattr(value, "_time", None)
    now = clock() if clock is not None else 0.0
    ages = {name: now - attributes.pop(name) for name in _TIMES if name in attributes}
    file = getattr(value, "fp", None)
    state = (attributes, ages, getattr(file, "_wrapped", file))
    return make_bar, (type(value),), state, None, None, fill_bar


def make_bar(kind: type) -> Any:
    """Make a blank bar, without a thread that watches it."""
    bar: Any = object.__new__(kind)
    bar.get_lock()  # its class has one from the first bar on
    bar.disable = True  # so that it says nothing if the restore ends here
    return bar


def fill_bar(bar: Any, state: tuple[dict[str, Any], dict[str, float], Any]) -> None:
    """Give a bar its counts, its clock and what it prints to."""
    from tqdm.utils import DisableOnWriteError

    attributes, ages, file = state
    set_attributes(bar, attributes)
    if ages:
        now = bar._time()
        set_attributes(bar, {name: now - age for name, age in ages.items()})
    if file is not None:
        bar.fp = DisableOnWriteError(file, tqdm_instance=bar)
        bar.sp = bar.status_printer(bar.fp)
    if not bar.disable:
        bar._instances.add(bar)


RECIPES = (Recipe(module="tqdm.std", qualname="tqdm", reduce=_bar, subclasses=True),)
