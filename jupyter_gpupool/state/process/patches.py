"""Attributes of libraries that cells have set: ``pd.DataFrame.show = show``, ``np.random.seed = None``.

Rules of this module: what the kernel sets itself (its streams and hooks) is left alone; a module of the
user's own is spoken of elsewhere, its classes here.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.process import typed
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.process.modules import is_users_module
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_NAME = "libraries"
#: Attributes that belong to the process or to its kernel.
_KERNELS = {
    "sys": frozenset(
        {
            *("stdin", "stdout", "stderr", "displayhook", "ps1", "ps2", "ps3", "path", "argv", "modules"),
            *("meta_path", "path_hooks", "last_exc", "last_type", "last_value", "last_traceback"),
        }
    ),
    "os": frozenset({"environ", "environb"}),
    "builtins": frozenset({"_", "display", "get_ipython", "exit", "quit"}),
}
_GONE = object()
_AGAIN = "Set it again."


def section(namespace: dict[str, Any], memory: History) -> Section:
    """Return the section.

    Parameters
    ----------
    namespace : dict
        What names in the cells stand for.
    memory : History
        The cells.
    """

    def take(tell: Tell) -> list[tuple[str, str, str, Any]]:
        chains = typed.read(memory.inputs.get("In", ())).set
        return [found for chain in sorted(chains) if (found := _found(chain, namespace)) is not None]

    return Section(name=_NAME, take=take, put=_put)


def _found(chain: tuple[str, ...], namespace: dict[str, Any]) -> tuple[str, str, str, Any] | None:
    owner, name = typed.reached(chain[:-1], namespace), chain[-1]
    if owner is None or (isinstance(owner, ModuleType) and is_users_module(owner)):
        return None
    of = typed.name_of_owner(owner)
    value = vars(owner).get(name, _GONE)
    if of is None or value is _GONE or name in _KERNELS.get(of[0], ()):
        return None
    if callable(value) and getattr(value, "__module__", None) == of[0]:
        return None  # it is the library's own (again)
    return (*of, name, value)


def _put(value: list[tuple[str, str, str, Any]], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    for module, qualname, name, wanted in value:
        path = ".".join(filter(None, (module, qualname, name)))
        try:
            owner = known.named(module, qualname) if qualname else _module(module)
        except (ImportError, AttributeError) as error:
            changes.failed(path, f"it cannot be set here: {error}", _AGAIN)
            continue
        if lost.is_lost(wanted):
            changes.failed(path, "what it was set to cannot be saved", _AGAIN)
            continue
        before = vars(owner).get(name, _GONE)
        if before is not wanted:
            changes.make(path, _setting(owner, name, wanted), _setting(owner, name, before))
    return changes.undo


def _module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def _setting(owner: Any, name: str, value: Any) -> Undo:
    def work() -> None:
        delattr(owner, name) if value is _GONE else setattr(owner, name, value)

    return work
