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
from jupyter_gpupool.kernel.errors import CellFailed


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
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if any(isinstance(node.ctx, ast.Store) and node not in changed for node in named):
        return True
    # an import or a definition; to be deleted, or changed in place, counts as being assigned, too
    return all(isinstance(node.ctx, ast.Load) for node in named)


def rerun(shell: Any, name: str) -> None:
    """Run the last cell again that bound a name.

    Raises
    ------
    InvalidValue
        If this shell knows of none.
    CellFailed
        If it fails; its own error has been shown then.
    """
    inputs = [] if shell is None else list(shell.history_manager.input_hist_parsed)
    number = defining_cell(inputs[:-1], name)
    if number is None:
        raise InvalidValue(
            f"No cell that this kernel knows of has made “{name}”.", hint="Run the cell that makes it."
        )
    source = inputs[number]
    print(f"Running In[{number}] again, which made “{name}”:\n\n{source.rstrip()}\n")  # noqa: T201 - it is shown
    if not shell.run_cell(source, store_history=False).success:
        raise CellFailed(f"In[{number}] failed when it was run again; its error is above.")
