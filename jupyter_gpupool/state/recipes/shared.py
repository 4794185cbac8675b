"""Objects that everybody in a process shares: they stay the ones that modules know.

Rule of this module: such an object is found again, never copied; what it is set to is put back with the
process or belongs to it.
"""

from __future__ import annotations

import sys
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import named
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, Reducer

#: A type, and where the one that is shared is found: a module, and a name in it.
_SHARED = (
    ("os", "_Environ", "os", "environ"),
    ("os", "_Environ", "os", "environb"),
    ("matplotlib", "RcParams", "matplotlib", "rcParams"),
    ("matplotlib", "RcParams", "matplotlib", "rcParamsDefault"),
    ("matplotlib.cm", "ColormapRegistry", "matplotlib", "colormaps"),
    ("pandas._config.config", "DictWrapper", "pandas", "options"),
)


def _found(value: Any) -> tuple[str, str] | None:
    for _, _, module, name in _SHARED:
        if getattr(sys.modules.get(module), "__dict__", {}).get(name) is value:
            return module, name
    return None


def _shared(value: Any, capturing: Capturing) -> Reduced | None:
    found = _found(value)
    return None if found is None else (named, found)


def _reducer(module: str) -> Reducer:
    return _shared if module != "os" else _environment


def _environment(value: Any, capturing: Capturing) -> Reduced:
    found = _found(value)
    if found is None:
        return capturing.lose(value, "it is an environment that is not the process's own", "Keep dict(it).")
    return named, found


RECIPES = tuple(
    Recipe(module=module, qualname=name, reduce=_reducer(module))
    for module, name in dict.fromkeys((module, name) for module, name, _, _ in _SHARED)
)
