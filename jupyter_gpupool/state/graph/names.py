"""Which names of a namespace are the user's.

Rule of this module: what IPython and Python put there is told by identity, so that a name of theirs that the
user has taken is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from jupyter_gpupool.state.graph import known

_OF_MODULES = frozenset(
    {
        *("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__"),
        *("__builtin__", "__builtins__", "__session__", "_exit_code"),
    }
)
_OF_SHELL = frozenset({"In", "Out", "_ih", "_oh", "_dh", "_i", "_ii", "_iii", "get_ipython", "exit", "quit"})
_INPUT = re.compile(r"_i\d+")
_OUTPUT = re.compile(r"_(\d+)")
_MISSING = object()


def users(namespace: dict[Any, Any]) -> list[str]:
    """Return the names that are the user's, in their order."""
    host = known.shell()
    in_shell = host is not None and host.user_ns is namespace
    is_hidden = (lambda name, value: _is_ipythons(host, name, value)) if in_shell else _never
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str) and name not in _OF_MODULES and not is_hidden(name, value)
    ]


def _never(name: str, value: Any) -> bool:
    return False


def _is_ipythons(host: Any, name: str, value: Any) -> bool:
    if host.user_ns_hidden.get(name, _MISSING) is value or name in _OF_SHELL or _INPUT.fullmatch(name):
        return True
    if name in ("_", "__", "___"):
        return getattr(getattr(host, "displayhook", None), name, _MISSING) is value
    output = _OUTPUT.fullmatch(name)
    return output is not None and host.user_ns.get("_oh", {}).get(int(output[1]), _MISSING) is value


def chosen(names: list[str], only: Collection[str] | None, skip: Collection[str] | None) -> list[str]:
    """Return those of some names that were asked for."""
    return [name for name in names if (only is None or name in only) and (not skip or name not in skip)]
