"""Live objects of every kernel that are met, not saved: the namespace itself, ``sys.modules``, its streams.

Rules of this module: both sides agree on names; the stream begins with those that it was captured with, and
they have the first numbers in its memo. What is not there at the other side comes back as a marker.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.graph.loading import current

_OF_SYS = (
    *("modules", "path", "argv", "meta_path", "path_hooks", "path_importer_cache"),
    *("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"),
    *("flags", "version_info", "implementation", "float_info", "int_info", "hash_info", "thread_info"),
)
_OF_SHELL = ("In", "Out", "_ih", "_oh", "_dh")
_FIND = b"cjupyter_gpupool.state.graph.known\nfind\n"


def shell() -> Any:
    """Return the IPython shell of this process; None outside one."""
    module = sys.modules.get("IPython.core.interactiveshell")
    kind = getattr(module, "InteractiveShell", None)
    return kind._instance if kind is not None else None


def here(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the live objects of this process by name, each once."""
    found: dict[str, Any] = {"namespace": namespace, "builtins": sys.modules["builtins"].__dict__}
    found |= {f"sys.{name}": getattr(sys, name, None) for name in _OF_SYS}
    host = shell()
    if host is not None:
        found["shell"] = host
        found |= {f"shell.{name}": host.user_ns.get(name) for name in _OF_SHELL if host.user_ns is namespace}
    once: dict[int, str] = {}
    return {
        name: value
        for name, value in found.items()
        if value is not None and once.setdefault(id(value), name) == name
    }


def memo(live: list[Any]) -> dict[int, tuple[int, Any]]:
    """Return objects as the memo that a pickler begins with."""
    return {id(value): (number, value) for number, value in enumerate(live)}


def preamble(names: list[str]) -> bytes:
    """Return the part of a stream that gives them the same numbers when it is loaded."""
    parts = [pickle.PROTO, b"\x05"]
    for name in names:
        written = name.encode()
        parts += [_FIND, pickle.BINUNICODE, len(written).to_bytes(4, "little"), written]
        parts += [pickle.TUPLE1, pickle.REDUCE, pickle.MEMOIZE, pickle.POP]
    return b"".join([*parts, pickle.NONE, pickle.STOP])


def find(name: str) -> Any:
    """Find one when a snapshot is loaded."""
    loading = current()
    if name == "dict":
        return {}
    if name == "set":
        return set()
    found = here(loading.namespace).get(name)
    if found is None and name.startswith("shell."):  # restored aside, under a prefix
        found = getattr(shell(), "user_ns", {}).get(name.removeprefix("shell."))
    if found is not None:
        return found
    # The same object may have another name here: sys.stdout is sys.__stdout__ in one process only.
    found = getattr(sys, name.removeprefix("sys."), None) if name.startswith("sys.") else None
    if found is not None:
        return found
    what = "the IPython shell" if name.startswith("shell") else name
    return lost.marker(what, f"{what} belongs to the process, and this one has none")


def named(module: str, qualname: str) -> Any:
    """Find what a module calls by a name, importing it where that is needed."""
    __import__(module)
    found: Any = sys.modules[module]
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def is_named(value: Any, module: object, qualname: object) -> bool:
    """Tell whether a module of this process calls exactly this object by that name."""
    if not isinstance(module, str) or not isinstance(qualname, str) or "<locals>" in qualname:
        return False
    found: Any = sys.modules.get(module)
    if found is None:
        return False
    for part in qualname.split("."):
        try:
            found = getattr(found, part)
        except Exception:
            return False
    return found is value
