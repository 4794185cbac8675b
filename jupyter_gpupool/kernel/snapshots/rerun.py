"""Runs the cell again that made a variable, when somebody asks for that.

Rule of this module: nothing is run unasked, because running a cell again repeats what it did; which cell it
is, is shown before it runs.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Sequence
from typing import Any

from jupyter_gpupool.core.errors import InvalidValue


def defining_cell(inputs: Sequence[str], name: str) -> int | None:
    """Return the number of the last cell that bound a name, other than by changing it; None if none did."""
    return next((n for n in range(len(inputs) - 1, 0, -1) if _binds(inputs[n], name)), None)


def _binds(source: str, name: str) -> bool:
    if name not in source:
        return False
    try:
        symbol = symtable.symtable(source, "<cell>", "exec").lookup(name)
        tree = ast.parse(source)
    except (SyntaxError, ValueError, KeyError, RecursionError):
        return False
    if not (symbol.is_assigned() or symbol.is_imported()):
        return False
    changed = [node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)]
    stored = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return not stored or any(node not in changed for node in stored)


def rerun(shell: Any, name: str) -> None:
    """Run the last cell again that bound a name.

    Raises
    ------
    InvalidValue
        If this shell knows of none.
    """
    inputs = [] if shell is None else list(shell.history_manager.input_hist_parsed)
    number = defining_cell(inputs[:-1], name)
    if number is None:
        raise InvalidValue(
            f"No cell that this kernel knows of has made “{name}”.", hint="Run the cell that makes it."
        )
    source = inputs[number]
    print(f"Running In[{number}] again, which made “{name}”:\n\n{source.rstrip()}\n")  # noqa: T201 - it is shown
    shell.run_cell(source, store_history=False).raise_error()
