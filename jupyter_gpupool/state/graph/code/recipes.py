"""The recipes of this package.

Rule of this module: order only; what takes things apart lies with them.
"""

from __future__ import annotations

from jupyter_gpupool.state.graph import pickler
from jupyter_gpupool.state.graph.code import classes, functions, modules, wrappers

#: All recipes for code; a later one for the same type counts.
RECIPES = (
    *modules.RECIPES,
    *functions.RECIPES,
    *classes.RECIPES,
    *wrappers.RECIPES,
    *pickler.RECIPES,
)
