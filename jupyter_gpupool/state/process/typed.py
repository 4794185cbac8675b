"""What cells did to what is not theirs, read from their text: attributes that were set, what was registered.

Rules of this module: nothing is run; a name in a cell counts for what the namespace calls by it now, and only
modules and classes are followed from there, without any code of theirs.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from jupyter_gpupool.state.graph.known import is_named

#: So many cells are remembered once they were read.
_CELLS = 4096
#: Longer cells are not read: they are data, characters.
_LONGEST = 200_000
_CONFIG = re.compile(r"^\s*(\w+)\.(\w+)\s*=")


@dataclass(frozen=True, slots=True)
class Typed:
    """What one cell says.

    Attributes
    ----------
    set : frozenset of tuple of str
        Attributes that it sets: ``("np", "linalg", "norm")``.
    registers : frozenset of tuple of str
        Of what it calls, or decorates with, ``register``.
    configured : frozenset of (str, str)
        Settings of IPython, by ``%config``: a class and a name.
    """

    set: frozenset[tuple[str, ...]] = frozenset()
    registers: frozenset[tuple[str, ...]] = frozenset()
    configured: frozenset[tuple[str, str]] = frozenset()


def read(cells: Iterable[Any]) -> Typed:
    """Read cells, as IPython keeps them: without magics."""
    found = [_read(cell) for cell in cells if isinstance(cell, str) and "." in cell]
    return Typed(
        frozenset().union(*(one.set for one in found)),
        frozenset().union(*(one.registers for one in found)),
        frozenset().union(*(one.configured for one in found)),
    )


@functools.lru_cache(maxsize=_CELLS)
def _read(cell: str) -> Typed:
    try:
        tree = ast.parse(cell) if len(cell) <= _LONGEST else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Typed()
    nodes = list(ast.walk(tree))
    chains = [chain for node in nodes for chain in _set_by(node)]
    registers = [
        _chain(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "register"
    ]
    return Typed(
        frozenset(chain for chain in chains if len(chain) > 1),
        frozenset(chain for chain in registers if chain),
        frozenset(found for node in nodes for found in _configured_by(node)),
    )


def _set_by(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield _chain(node)
    elif isinstance(node, ast.Call) and _chain(node.func) == ("setattr",) and len(node.args) == 3:
        named = node.args[1]
        owner = _chain(node.args[0])
        if owner and isinstance(named, ast.Constant) and isinstance(named.value, str):
            yield (*owner, named.value)


def _configured_by(node: ast.AST) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 2:
        return
    values = [part.value if isinstance(part, ast.Constant) else None for part in node.args]
    if node.func.attr == "run_line_magic" and values[0] == "config" and isinstance(values[1], str):
        found = _CONFIG.match(values[1])
        if found:
            yield found[1], found[2]


def _chain(node: ast.AST) -> tuple[str, ...]:
    """Return ``a.b.c`` as names; nothing where there is anything else in it."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (*[node.id], *reversed(names)) if isinstance(node, ast.Name) else ()


def reached(chain: tuple[str, ...], namespace: dict[str, Any]) -> Any:
    """Return the module or class that a chain of names leads to; None where it leads elsewhere."""
    found = namespace.get(chain[0])
    for name in chain[1:]:
        if not isinstance(found, ModuleType | type):
            return None
        holders = [found] if isinstance(found, ModuleType) else type.mro(found)
        held = (vars(holder)[name] for holder in holders if name in vars(holder))
        found = next(held, None)
    return found if isinstance(found, ModuleType | type) else None


def name_of_owner(owner: Any) -> tuple[str, str] | None:
    """Return module and qualified name of a module (that is empty) or class that is found by them."""
    if isinstance(owner, ModuleType):
        return owner.__name__, ""
    module, name = owner.__module__, owner.__qualname__
    return (module, name) if module != "__main__" and is_named(owner, module, name) else None
