"""Settings that are read and written one by one: of libraries and of Python.

Rule of this module: only what differs from a library's own default is saved; what was default then is made
default again, so that a restore undoes later changes too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.process.section import Changes

_ABSENT = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """One table of settings.

    Attributes
    ----------
    name : str
        How it is shown, as Python (``pandas.options``).
    read : callable
        Returns the settings as they are.
    defaults : callable
        Returns the settings as the library begins with them.
    write : callable
        Sets one of them.
    """

    name: str
    read: Callable[[], Mapping[str, Any]]
    defaults: Callable[[], Mapping[str, Any]]
    write: Callable[[str, Any], object]

    def changed(self) -> dict[str, Any]:
        """Return those that are not as in the beginning."""
        defaults = self.defaults()
        return {
            key: value
            for key, value in self.read().items()
            if key in defaults and not same(value, defaults[key])
        }

    def put(self, changed: Mapping[str, Any], changes: Changes) -> None:
        """Make them as they were saved."""
        now, wanted = self.read(), {**self.defaults(), **changed}
        for key, value in wanted.items():
            before = now.get(key, _ABSENT)
            if lost.is_lost(value):
                changes.failed(f"{self.name}[{key!r}]", "what it was set to could not be saved")
            elif before is _ABSENT:
                if key in changed:
                    changes.failed(f"{self.name}[{key!r}]", "this version of the library has no such setting")
            elif not same(before, value):
                changes.make(f"{self.name}[{key!r}]", self._writing(key, value), self._writing(key, before))

    def _writing(self, key: str, value: Any) -> Callable[[], object]:
        return lambda: self.write(key, value)


def same(one: Any, other: Any) -> bool:
    """Tell whether two settings are equal; not where comparing them says nothing clear."""
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:
        return False
