"""One restore that is going on: objects are made again from the stream, aside of the namespace.

Rules of this module: what cannot be made again becomes a marker and is reported; nothing that was there
before is changed here.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.graph.naming import reason_of, type_name_of
from jupyter_gpupool.state.graph.remarks import Remark
from jupyter_gpupool.state.model import FindingKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.memory.regions import Regions

_OURS = "jupyter_gpupool.state."


class Readable(Protocol):
    """What the unpickler reads from."""

    def read(self, size: int = -1, /) -> bytes:
        """Read some bytes."""

    def readline(self) -> bytes:
        """Read a line."""

    def readinto(self, target: memoryview, /) -> int:
        """Fill memory."""


class _Unpickler(pickle.Unpickler):
    """Finds what the stream names; what is not there comes back as a lost class."""

    def __init__(self, source: Readable, restore: Restore) -> None:
        super().__init__(source)
        self._restore = restore

    def find_class(self, module: str, name: str) -> Any:
        """Find what a module calls by a name."""
        try:
            return self._restore.named(module, name)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            if module.startswith(_OURS):
                raise
            return self._restore.lost_class(f"{module}.{name}", _not_found(module, name, error))


def _not_found(module: str, name: str, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"module {error.name or module} is not installed here"
    if isinstance(error, AttributeError):
        return f"module {module} has no {name} here"
    return f"importing {module} failed: {reason_of(error)}"


class Restore:
    """What the functions in the stream are given.

    Parameters
    ----------
    namespace : dict
        The globals of functions that are restored.
    regions : Regions
        Memory that arrays and tensors look at, made again.
    source : file
        The stream.
    """

    def __init__(self, namespace: dict[str, Any], regions: Regions, source: Readable) -> None:
        self.namespace = namespace
        self.regions = regions
        self.remarks: list[Remark] = []
        self.variable = ""
        self.origins: dict[str, str] = {}
        self.after: list[Callable[[], None]] = []
        self._later: list[Callable[[], None]] = []
        self._broken: list[tuple[Any, str]] = []
        self.load = _Unpickler(source, self).load

    def named(self, module: str, name: str) -> Any:
        """Find what a module calls by a name; a module of the user is found where its file was."""
        try:
            return known.named(module, name)
        except ModuleNotFoundError as error:
            path = self.origins.get(module.partition(".")[0])
            if path is None or error.name != module.partition(".")[0] or not Path(path).exists():
                raise
            from jupyter_gpupool.state.graph.code.modules import load_module

            load_module(str(error.name), path, keep=True)
            return known.named(module, name)

    def lost(self, type_name: str, reason: str, hint: str = "") -> Any:
        """Return a marker in place of a value, and report it."""
        marker = lost.marker(type_name, reason, hint)
        self.note(marker, FindingKind.NOT_SAVED, reason, hint)
        return marker

    def lost_class(self, type_name: str, reason: str, hint: str = "") -> Any:
        """Return a marker in place of a class, and report it."""
        marker = lost.lost_class(type_name, reason, hint)
        self.note(marker, FindingKind.NOT_SAVED, reason, hint)
        return marker

    def broken(self, value: Any, reason: str) -> None:
        """Report a value that is only half made."""
        self._broken.append((value, reason))

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        """Report something about a value."""
        self.remarks.append(Remark(value, kind, reason, hint, self.variable))

    def later(self, work: Callable[[], None]) -> None:
        """Do something when all objects are there."""
        self._later.append(work)

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do something when the namespace has the restored values."""
        self.after.append(work)

    def let_go(self) -> None:
        """Let go of everything that was made, so that only the namespace holds it."""
        del self.load

    def finish(self, variables: dict[str, Any]) -> None:
        """Do what had to wait for all objects, and put markers where values are half made."""
        told = {id(remark.value) for remark in self.remarks}
        for self.variable, value in variables.items():
            if lost.is_lost(value) and id(value) not in told:  # an object of the process that is not there
                self.note(value, FindingKind.NOT_SAVED, *lost.loss_of(value)[1:])
        while self._later:
            self._later.pop(0)()
        for value, reason in self._broken:
            said = type_name_of(value)
            if lost.turn_into(value, said, reason):
                self.note(value, FindingKind.NOT_SAVED, reason)
            else:
                _replace(value, self.lost(said, reason), variables)
        self._broken = []


def _replace(value: Any, marker: Any, variables: dict[str, Any]) -> None:
    """Put a marker wherever a value is held that can be changed."""
    for holder in gc.get_referrers(value):
        if type(holder) is list:
            holder[:] = [marker if item is value else item for item in holder]
        elif type(holder) is dict:
            _replace_in(holder, value, marker)
        elif not isinstance(holder, type | tuple):
            _replace_in(cast("dict[str, Any]", getattr(holder, "__dict__", {})), value, marker)
    _replace_in(variables, value, marker)


def _replace_in(holder: Any, value: Any, marker: Any) -> None:
    if isinstance(holder, dict):
        for key, item in list(holder.items()):
            if item is value:
                holder[key] = marker
