"""Functions, their code and their cells.

Rules of this module: a function of the notebook looks its globals up in the namespace that it is restored
into; cells are objects of their own, so that closures that shared one still do; what a function refers to is
set after the function is there, because it may be the function itself.
"""

from __future__ import annotations

import builtins
import linecache
import marshal
import sys
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.code import modules
from jupyter_gpupool.state.graph.known import is_named
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

_ATTRIBUTES = ("__doc__", "__module__", "__annotations__", "__type_params__", "__annotate__")


class Globals:
    """The globals of functions that are neither the namespace's nor a plain dict's: those of a module."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module


def _globals(value: Globals, capturing: Capturing) -> Reduced:
    return vars, (value.module,)


def is_by_name(value: Any) -> bool:
    """Tell whether a function or class is found under its own name in a process that imports its module."""
    module = getattr(value, "__module__", None)
    return modules.is_importable(module) and is_named(value, module, getattr(value, "__qualname__", None))


def _function(value: FunctionType, capturing: Capturing) -> Reduced | None:
    if is_by_name(value):
        return None
    notes = capturing.notes
    arguments = (value.__code__, _globals_of(value, capturing), value.__name__, value.__closure__)
    cells = [] if value.__closure__ is None else [_contents(cell, notes) for cell in value.__closure__]
    state: dict[str, Any] = {"cells": [held for held in cells if held is not None]}
    if value.__defaults__ is not None:
        state["__defaults__"] = value.__defaults__
    if value.__kwdefaults__ is not None:
        state["__kwdefaults__"] = value.__kwdefaults__
    if value.__qualname__ != value.__name__:
        state["__qualname__"] = value.__qualname__
    state |= _described(value)
    if value.__dict__:
        state["dict"] = value.__dict__
    return make_function, arguments, state, None, None, fill_function


def _described(value: FunctionType) -> dict[str, Any]:
    """Return attributes that say something of a function, but for what its code says already."""
    found = {}
    for name in _ATTRIBUTES:
        if name == "__annotations__" and getattr(value, "__annotate__", None) is not None:
            continue  # made from the other when somebody asks
        attribute = getattr(value, name, None)
        if attribute:
            found[name] = attribute
    return found


def _globals_of(value: FunctionType, capturing: Capturing) -> Any:
    """Return what stands for a function's globals: what the memo knows, or something that is made of it."""
    own = value.__globals__
    if own is capturing.namespace or own is builtins.__dict__:
        return own
    known = capturing.notes.setdefault("globals", {})
    if id(own) not in known:
        module = next((m for m in sys.modules.copy().values() if getattr(m, "__dict__", None) is own), None)
        if module is None and isinstance(own.get("__loader__"), object) and "__spec__" in own:
            module = _beside(own)
        known[id(own)] = own if module is None else Globals(module)
    return known[id(own)]


def _beside(own: dict[str, Any]) -> ModuleType | None:
    """Return a module that is in nobody's list, by its dict: the one thing that refers to both."""
    import gc

    for holder in gc.get_referrers(own):
        if isinstance(holder, ModuleType) and holder.__dict__ is own:
            return holder
    return None


def _contents(cell: CellType, notes: dict[str, Any]) -> tuple[CellType, Any] | None:
    """Return a cell with what it holds, for the first function that has it; it is made empty."""
    shells = notes.setdefault("cells", {})
    if id(cell) in shells:
        return None
    shells[id(cell)] = cell
    try:
        return cell, cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _cell(value: CellType, capturing: Capturing) -> Reduced:
    shells = capturing.notes.setdefault("cells", {})
    if id(value) in shells:
        return CellType, ()
    held = _contents(value, capturing.notes)
    return (CellType, ()) if held is None else (CellType, (), held[1:], None, None, fill_cell)


def fill_cell(cell: CellType, held: tuple[Any]) -> None:
    """Give a cell what it holds."""
    cell.cell_contents = held[0]


def make_function(code: CodeType, namespace: Any, name: str, closure: Any) -> FunctionType:
    """Make a function around its code."""
    return FunctionType(code, namespace, name, None, closure)


def fill_function(function: FunctionType, state: dict[str, Any]) -> None:
    """Give a function what it refers to."""
    for cell, held in state.pop("cells"):
        cell.cell_contents = held
    function.__dict__.update(state.pop("dict", {}))
    for name, attribute in state.items():
        setattr(function, name, attribute)


def _code(value: CodeType, capturing: Capturing) -> Reduced:
    try:
        written = marshal.dumps(value, 2)  # without references: the same code gives the same bytes
    except ValueError:
        written = marshal.dumps(value)
    source = _source(value.co_filename, capturing)
    place = (value.co_filename, source, value.co_firstlineno, value.co_name)
    return make_code, (written, _version(), *place)


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _source(filename: str, capturing: Capturing) -> str | None:
    """Return the text of a cell, once for all that was written in it; None for a file on the disk."""
    known = capturing.notes.setdefault("sources", {})
    if filename not in known:
        cached: Any = linecache.cache.get(filename)
        is_cell = cached is not None and len(cached) > 1 and cached[1] is None
        known[filename] = "".join(cached[2]) if is_cell else None
    text: str | None = known[filename]
    return text


def make_code(
    written: bytes, version: str, filename: str, source: str | None, line: int, name: str
) -> CodeType:
    """Make a code object; by another Python it is compiled again from its cell."""
    if source is not None and filename not in linecache.cache:
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    if version == _version():
        code: CodeType = marshal.loads(written)  # noqa: S302 (checked: the snapshot is signed)
        return code
    if source is None:
        raise ImportError(f"it was compiled by Python {version}, and its source was not saved")
    found = _inside(compile(source, filename, "exec", dont_inherit=True), line, name)
    if found is None:
        raise ImportError(f"it was compiled by Python {version}, and is not found in its cell again")
    return found


def _inside(code: CodeType, line: int, name: str) -> CodeType | None:
    """Find the code of a function in that of the cell it was written in."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        is_it = constant.co_firstlineno == line and constant.co_name == name
        found = constant if is_it else _inside(constant, line, name)
        if found is not None:
            return found
    return None


def _method(value: Any, capturing: Capturing) -> Reduced:
    return type(value), (value.__func__, value.__self__)


def _builtin(value: Any, capturing: Capturing) -> Reduced | None:
    owner, name = value.__self__, value.__name__
    if owner is None or isinstance(owner, ModuleType):
        if is_named(value, value.__module__, value.__qualname__):
            return None
        if owner is not None and getattr(owner, name, None) is value:
            return getattr, (owner, name)
        return capturing.lose(value, "it is a function of C that no module names")
    return getattr, (owner, name)


RECIPES = (
    Recipe(module="types", qualname="FunctionType", reduce=_function, kind=FunctionType),
    Recipe(module="types", qualname="CodeType", reduce=_code, kind=CodeType),
    Recipe(module="types", qualname="CellType", reduce=_cell, kind=CellType),
    Recipe(module="types", qualname="MethodType", reduce=_method, kind=type(Capturing.lose.__get__(0))),
    Recipe(module="types", qualname="BuiltinFunctionType", reduce=_builtin, kind=type(len)),
    recipe_for(Globals, _globals),
)
