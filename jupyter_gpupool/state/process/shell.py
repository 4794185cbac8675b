"""What the notebook told its shell: extensions, magics of its own, how its types are shown, settings.

Rules of this module: only what cells did is saved; an extension is loaded again by its name where it is
installed, and its own state is its own.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.graph.naming import is_notebooks
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.process import typed
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo, finding

_NAME = "shell"
_OURS = "jupyter_gpupool"
#: IPython finds its own extensions without this.
_SHORT = "IPython.extensions."
#: Hooks around cells.
_EVENTS = ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell")
_SCALARS = (str, bool, int, float, type(None))
_MISSING = object()


def section(memory: History) -> Section:
    """Return the section.

    Parameters
    ----------
    memory : History
        The cells.
    """
    return Section(name=_NAME, take=lambda tell: _take(memory, tell), put=_put)


def _take(memory: History, tell: Tell) -> dict[str, Any]:
    shell = known.shell()
    if shell is None:
        return {}
    return {
        "extensions": _extensions(shell, memory, tell),
        "magics": [
            (kind, name, made)
            for kind, table in shell.magics_manager.magics.items()
            for name, made in table.items()
            if is_notebooks(made)
        ],
        "shown": [
            (mime, kind, printer)
            for mime, formatter in shell.display_formatter.formatters.items()
            for kind, printer in formatter.type_printers.items()
            if is_notebooks(kind) or is_notebooks(printer)
        ],
        "events": [
            (event, function)
            for event in _EVENTS
            for function in shell.events.callbacks.get(event, ())
            if is_notebooks(function)
        ],
        "configured": _configured(shell, memory),
    }


def _extensions(shell: Any, memory: History, tell: Tell) -> list[str]:
    """Return the extensions that cells have loaded, and say that they will be new ones."""
    cells = "\n".join(cell for cell in memory.inputs.get("In", ()) if isinstance(cell, str))
    loaded = sorted(shell.extension_manager.loaded)
    found = [name for name in loaded if name != _OURS and f"'{name.removeprefix(_SHORT)}'" in cells]
    for name in found:
        reason = "it is loaded again, and does not know what it was told"
        hint = f"Give its magics again that set it up, as in %{name.removeprefix(_SHORT)} …."
        tell(finding(_NAME, FindingKind.REBUILT, f"%load_ext {name}", "extension", reason, hint))
    return found


def _configured(shell: Any, memory: History) -> list[tuple[str, str, Any]]:
    """Return the settings that ``%config`` was told, as they are now."""
    found: list[tuple[str, str, Any]] = []
    for kind, name in sorted(typed.read(memory.inputs.get("In", ())).configured):
        one = _configurable(shell, kind)
        value = getattr(one, name, _MISSING)
        items = value if isinstance(value, list | tuple | set) else [value]
        if all(isinstance(item, _SCALARS) for item in items):
            found.append((kind, name, value))
    return found


def _configurable(shell: Any, kind: str) -> Any:
    return next((one for one in shell.configurables if type(one).__name__ == kind), None)


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    shell, changes = known.shell(), Changes(_NAME, tell)
    if shell is None:
        return changes.undo
    for name in value.get("extensions", ()):
        if name not in shell.extension_manager.loaded:
            _load(shell, name, changes)
    for kind, name, made in value.get("magics", ()):
        _entry(shell.magics_manager.magics[kind], name, made, f"the magic {name}", changes)
    for mime, kind, printer in value.get("shown", ()):
        table = shell.display_formatter.formatters[mime].type_printers
        path = f"how {getattr(kind, '__qualname__', kind)} is shown as {mime}"
        _entry(table, kind, printer, path, changes)
    for event, function in value.get("events", ()):
        _put_event(shell, event, function, changes)
    for kind, name, wanted in value.get("configured", ()):
        one = _configurable(shell, kind)
        before = getattr(one, name, _MISSING)
        if before is not _MISSING and before != wanted:
            changes.make(f"%config {kind}.{name}", _setting(one, name, wanted), _setting(one, name, before))
    return changes.undo


def _load(shell: Any, name: str, changes: Changes) -> None:
    path = f"%load_ext {name}"

    def load() -> None:
        answer = shell.extension_manager.load_extension(name)
        if answer is not None:
            raise RuntimeError(answer)

    changes.make(path, load, lambda: shell.extension_manager.unload_extension(name))


def _entry(table: dict[Any, Any], key: Any, wanted: Any, path: str, changes: Changes) -> None:
    if lost.is_lost(key) or lost.is_lost(wanted):
        changes.failed(path, "it cannot be put back here", "Define it again.")
        return
    changes.put(table, key, wanted, path)


def _put_event(shell: Any, event: str, function: Any, changes: Changes) -> None:
    path = f"what is done at {event}"
    if lost.is_lost(function):
        changes.failed(path, "it cannot be put back here", "Register it again.")
        return
    callbacks = shell.events.callbacks[event]
    before = list(callbacks)
    # in the same kernel the function as it was before stands there still: it would be called, too
    kept = [it for it in callbacks if not (is_notebooks(it) and _called(it) == _called(function))]
    changes.make(path, lambda: _assign(callbacks, [*kept, function]), lambda: _assign(callbacks, before))


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _assign(target: list[Any], items: list[Any]) -> None:
    target[:] = items


def _setting(one: Any, name: str, value: Any) -> Undo:
    def work() -> None:
        setattr(one, name, value)

    return work
