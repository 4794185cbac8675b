"""What the functions that make values again are given while a snapshot is loaded.

Rule of this module: functions in the stream get plain arguments only; what else they need they ask `current`
for. Nothing outside what is being loaded is changed before `Loading.finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_gpupool.state.model import FindingKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.memory.regions import Regions


class Loading(Protocol):
    """One restore that is going on."""

    namespace: dict[str, Any]
    """The live namespace, which becomes the restored one: only for globals of functions."""
    regions: Regions
    """Memory that arrays and tensors look at, made again."""
    variable: str
    """The variable that is made now."""

    def lost(self, type_name: str, reason: str, hint: str = "") -> Any:
        """Return a marker in place of a value that cannot be made again, and report it."""

    def lost_class(self, type_name: str, reason: str, hint: str = "") -> Any:
        """Return a marker in place of a class that cannot be made again, and report it."""

    def broken(self, value: Any, reason: str) -> None:
        """Report a value that is there, but only half made: a marker takes its place."""

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        """Report something about a value that was made again."""

    def later(self, work: Callable[[], None]) -> None:
        """Do something when all objects are there, still aside of the namespace."""

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do something when the namespace has the restored values, and what made them is gone."""


LOADING: ContextVar[Loading] = ContextVar("loading")


def current() -> Loading:
    """Return the restore that is going on."""
    return LOADING.get()


def being_made() -> str:
    """Return the variable that is made now; empty outside of a restore."""
    found = LOADING.get(None)
    return "" if found is None else found.variable
