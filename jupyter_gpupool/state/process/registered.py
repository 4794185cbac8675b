"""What libraries were told of the notebook: what its classes count as, how they are pickled, accessors.

Rules of this module: only what the notebook's own code registered is saved, and it is registered again;
functions that are to be run when the kernel ends cannot be read with their arguments, and are told of.
"""

from __future__ import annotations

import abc
import atexit
import copyreg
import importlib
import sys
from typing import Any, cast

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.graph.code.classes import abc_registry
from jupyter_gpupool.state.graph.naming import is_notebooks, type_name_of
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.process import typed
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo, finding

_NAME = "registered"
_AGAIN = "Register it again."
#: Classes of pandas that take accessors.
_WITH_ACCESSORS = ("DataFrame", "Series", "Index")
_Entry = tuple[str, tuple[str, str], Any, Any]


def section(namespace: dict[str, Any], memory: History | None) -> Section:
    """Return the section.

    Parameters
    ----------
    namespace : dict
        What names in the cells stand for.
    memory : History or None
        The cells.
    """

    def take(tell: Tell) -> list[_Entry]:
        _tell_of_endings(tell)
        cells = () if memory is None else memory.inputs.get("In", ())
        return [*_virtual(cells, namespace), *_reducers(), *_accessors(), *_colormaps()]

    return Section(name=_NAME, take=take, put=_put)


# --- what is there ---


def _virtual(cells: Any, namespace: dict[str, Any]) -> list[_Entry]:
    """Return the classes of the notebook that count as ones of a library's abstract classes."""
    owners = {typed.reached(chain, namespace) for chain in typed.read(cells).registers}
    found: list[_Entry] = []
    for owner in owners:
        of = typed.name_of_owner(owner) if isinstance(owner, abc.ABCMeta) else None
        if of is None:
            continue
        kinds = [entry() for entry in abc_registry(owner)]
        found += [("abstract", of, kind, None) for kind in kinds if kind is not None and is_notebooks(kind)]
    return sorted(found, key=lambda entry: (entry[1], entry[2].__qualname__))


def _reducers() -> list[_Entry]:
    table = copyreg.dispatch_table
    return [
        ("pickled", ("copyreg", "pickle"), kind, how)
        for kind, how in list(table.items())
        if is_notebooks(kind) or is_notebooks(how)
    ]


def _accessors() -> list[_Entry]:
    pandas = sys.modules.get("pandas")
    found: list[_Entry] = []
    for name in _WITH_ACCESSORS:
        kind = getattr(pandas, name, None)
        for called in sorted(getattr(kind, "_accessors", ())):
            accessor = getattr(vars(kind).get(called), "_accessor", None)
            if accessor is not None and is_notebooks(accessor):
                found.append(("accessor", ("pandas", name), called, accessor))
    return found


def _colormaps() -> list[_Entry]:
    registry: Any = getattr(sys.modules.get("matplotlib"), "colormaps", None)
    usual = getattr(registry, "_builtin_cmaps", None)
    if usual is None:
        return []
    of = ("matplotlib", "colormaps")
    return [("colormap", of, name, registry[name]) for name in registry if name not in usual]


class _Listening:
    """Is compared with everything, is equal to nothing, and remembers what it met."""

    def __init__(self) -> None:
        self.met: list[Any] = []

    def __eq__(self, other: object) -> bool:
        self.met.append(other)
        return False

    __hash__ = None  # type: ignore[assignment]


def endings() -> list[Any]:
    """Return the functions of the notebook that are to be run when the process ends."""
    listening = _Listening()
    try:
        atexit.unregister(cast("Any", listening))  # which compares it with each of them, and takes none away
    except Exception:  # one of them has ideas of its own about comparing
        return []
    return [one for one in listening.met if is_notebooks(one)]


def _tell_of_endings(tell: Tell) -> None:
    for one in endings():
        name = getattr(one, "__qualname__", type_name_of(one))
        reason = "it is to be run when the kernel ends (atexit), and a fresh kernel does not know of that"
        hint = f"Register it again after a restore: atexit.register({name})."
        tell(finding(_NAME, FindingKind.NOT_SAVED, name, type_name_of(one), reason, hint))


# --- and is put back ---


def _put(value: list[_Entry], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    for kind, of, first, second in value:
        path = f"{'.'.join(of)}.{first if isinstance(first, str) else getattr(first, '__qualname__', '?')}"
        if lost.is_lost(first) or lost.is_lost(second):
            changes.failed(path, "what was registered cannot be saved", _AGAIN)
            continue
        try:
            owner = known.named(*of)
        except (ImportError, AttributeError) as error:
            changes.failed(path, f"it cannot be registered here: {error}", _AGAIN)
            continue
        _KINDS[kind](owner, first, second, path, changes)
    return changes.undo


def _put_virtual(owner: Any, kind: Any, _: Any, path: str, changes: Changes) -> None:
    if not issubclass(kind, owner):
        changes.make(
            path, lambda: owner.register(kind), _nothing
        )  # whoever takes it back drops the class, too


def _put_reducer(_: Any, kind: Any, how: Any, path: str, changes: Changes) -> None:
    before = copyreg.dispatch_table.get(kind)

    def back() -> None:
        if before is None:
            copyreg.dispatch_table.pop(kind, None)
        else:
            copyreg.dispatch_table[kind] = before

    changes.make(path, lambda: copyreg.dispatch_table.__setitem__(kind, how), back)


def _put_accessor(owner: Any, name: Any, accessor: Any, path: str, changes: Changes) -> None:
    before = vars(owner).get(name)
    made: Any = importlib.import_module("pandas.core.accessor")

    def put(wanted: Any) -> None:
        if wanted is None:
            delattr(owner, name)
            owner._accessors.discard(name)
        else:
            setattr(owner, name, wanted)
            owner._accessors.add(name)

    holder = getattr(made, "Accessor", None) or made.CachedAccessor
    changes.make(path, lambda: put(holder(name, accessor)), lambda: put(before))


def _put_colormap(owner: Any, name: Any, made: Any, path: str, changes: Changes) -> None:
    if name not in owner:  # a library may have registered it when it was imported
        changes.make(path, lambda: owner.register(made, name=name), lambda: owner.unregister(name))


def _nothing() -> None:
    """Leave it."""


_KINDS = {
    "abstract": _put_virtual,
    "pickled": _put_reducer,
    "accessor": _put_accessor,
    "colormap": _put_colormap,
}
