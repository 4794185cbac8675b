"""What reducers are given while a namespace is captured.

Rule of this module: a reducer never raises to say that a value cannot be saved; it calls `lose`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Reduced

if TYPE_CHECKING:
    from jupyter_gpupool.state.memory.roots import RootTable


class Capturing(Protocol):
    """One capture that is going on."""

    namespace: dict[str, Any]
    """The namespace: functions whose globals it is get those of the restored one."""
    roots: RootTable
    """Memory that arrays and tensors look at."""
    notes: dict[str, Any]
    """What reducers remember from one value to the next, each under a key of its own."""

    def lose(self, value: Any, reason: str, hint: str = "") -> Reduced:
        """Save a marker in place of a value, and report it; return what the reducer must return."""

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        """Report something about a value that is saved."""
