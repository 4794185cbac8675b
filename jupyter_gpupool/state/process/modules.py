"""State that the user's own modules hold: it is not saved, and that is said.

Rules of this module: it looks at modules of the user's files that the namespace leads to, and compares them
with what their files say; nothing of a file is run. What a file only computes cannot be compared, and is not
spoken of.
"""

from __future__ import annotations

import ast
import functools
import symtable
import sys
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from jupyter_gpupool.state.kinds import is_a
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.process.section import Section, Tell, Undo, finding

_NAME = "modules"
#: So many modules are looked at, and none whose file is larger than this, bytes.
MOST = 50
MOST_BYTES = 500_000
#: So many names are said of each.
_SAID = 6
_OURS = "jupyter_gpupool"
#: What has names of its own.
_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


@dataclass(frozen=True, slots=True)
class _Written:
    """What a module's file says of its names.

    Attributes
    ----------
    bound : frozenset of str
        Those that it binds itself.
    plain : dict
        Those that it binds once, to something that is written out: their values.
    all : bool
        Whether it binds no others: it imports no ``*``.
    """

    bound: frozenset[str]
    plain: dict[str, Any]
    all: bool


def section(namespace: dict[str, Any]) -> Section:
    """Return the section: it saves nothing, and tells of what is not saved.

    Parameters
    ----------
    namespace : dict
        The namespace whose modules are looked at.
    """

    def take(tell: Tell) -> None:
        for module in _of_user(namespace):
            changed = _changed(module)
            if changed:
                tell(_said(module.__name__, changed))

    return Section(name=_NAME, take=take, put=_put)


def _put(value: None, tell: Tell) -> Undo:
    return lambda: None


def _said(module: str, names: list[str]) -> Any:
    more = f" and {len(names) - _SAID} more" if len(names) > _SAID else ""
    reason = f"it has state that is not saved: {', '.join(names[:_SAID])}{more}"
    hint = "A fresh kernel imports it as its file says: set that again, or keep it in the notebook."
    return finding(_NAME, FindingKind.NOT_SAVED, module, "module", reason, hint)


def _of_user(namespace: dict[str, Any]) -> list[ModuleType]:
    """Return the user's modules that a namespace leads to."""
    found: dict[str, ModuleType] = {}
    ahead = _led_to(list(namespace.values()))
    while ahead and len(found) < MOST:
        module = ahead.pop()
        if is_users_module(module) and module.__name__ not in found:
            found[module.__name__] = module
            ahead += _led_to(list(vars(module).values()))
    return [found[name] for name in sorted(found)]


def _led_to(values: Iterable[Any]) -> list[ModuleType]:
    names: set[object] = {
        value.__module__ if is_a(value, (FunctionType, type)) else type(value).__module__
        for value in values
        if not is_a(value, ModuleType)
    }
    modules = [sys.modules.get(name) for name in names if isinstance(name, str)]
    return [it for it in (*values, *modules) if is_a(it, ModuleType)]


def is_users_module(module: ModuleType) -> bool:
    """Tell whether a module is a file of the user's own."""
    name, file = vars(module).get("__name__"), vars(module).get("__file__")
    if not isinstance(name, str):
        return False
    if (top := name.partition(".")[0]) in sys.stdlib_module_names or top in ("__main__", _OURS):
        return False
    if not isinstance(file, str) or not file.endswith(".py") or sys.modules.get(name) is not module:
        return False
    return not {"site-packages", "dist-packages"} & {*Path(file).parts} and not file.startswith(installed())


@functools.cache
def installed() -> tuple[str, ...]:
    """Return the folders of Python's own modules, and of what is installed beside them."""
    return tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})


def _changed(module: ModuleType) -> list[str]:
    """Return the names of a module that are not as its file makes them."""
    written = _read(str(vars(module)["__file__"]))
    if written is None:
        return []
    return sorted(name for name, value in list(vars(module).items()) if _is_changed(name, value, written))


def _is_changed(name: str, value: Any, written: _Written) -> bool:
    if name.startswith("__") or not name.isidentifier() or is_a(value, ModuleType):
        return False
    if is_a(value, (FunctionType, type)) and value.__module__ == "__main__":
        return True  # the notebook's, put in the place of the module's
    if name in written.plain:
        plain = written.plain[name]
        return type(value) is not type(plain) or _differs(value, plain)
    return written.all and name not in written.bound


def _differs(value: Any, plain: Any) -> bool:
    try:
        return bool(value != plain)
    except Exception:  # whatever was put into it has ideas of its own about comparing
        return True


def _read(file: str) -> _Written | None:
    """Read a module's file; None where that says nothing."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return _parsed(file, status.st_mtime_ns) if status.st_size <= MOST_BYTES else None


@functools.lru_cache(maxsize=4 * MOST)
def _parsed(file: str, _: int) -> _Written | None:
    try:
        with tokenize.open(file) as stream:
            source = stream.read()
        tree, table = ast.parse(source), symtable.symtable(source, file, "exec")
        times = Counter(name for node in _at_module_level(tree) for name in _binds(node))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    bound = [it.get_name() for it in table.get_symbols() if it.is_assigned() or it.is_imported()]
    # whoever imports everything of another module, which is possible at the top only, binds "*"
    return _Written(frozenset(bound), _plain(tree, times), all="*" not in times)


def _plain(tree: ast.Module, times: Mapping[str, int]) -> dict[str, Any]:
    """Return what names are bound to that are bound once, at the top, to something written out."""
    found: dict[str, Any] = {}
    for statement in tree.body:
        name, value = _assignment(statement)
        if value is None or times.get(name) != 1:
            continue
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, TypeError, MemoryError, RecursionError):
            continue  # it is computed
    return found


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return the name and the value of ``name = value``; no value where a statement is none."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return target.id, statement.value
    return "", None


def _at_module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Go through what is run when a module is imported, without what functions and classes hold."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _at_module_level(child)


def _binds(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return [node.asname or node.name] if isinstance(node, ast.alias) else []
