"""A round trip through recipes alone: one pickle, with what was said of it; no memory, code or store."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes import assemble
from jupyter_gpupool.state.recipes.registry import Registry


@dataclass(frozen=True)
class Gone:
    """What stands where a value was lost."""

    type_name: str
    reason: str
    hint: str = ""


def gone(type_name: str, reason: str, hint: str) -> Gone:
    return Gone(type_name, reason, hint)


def fill(value: Any, parts: tuple[Callable[[Any, Any], None], Any]) -> None:
    setter, state = parts
    if not isinstance(value, Gone):
        setter(value, state)


@dataclass
class Said:
    """What was said, on either side."""

    lost: list[Gone] = field(default_factory=list)
    notes: list[tuple[FindingKind, str]] = field(default_factory=list)


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, registry: Registry, said: Said) -> None:
        super().__init__(stream, protocol=5)
        self.registry, self.said = registry, said
        self.namespace: dict[str, Any] = {}

    def reducer_override(self, value: Any) -> Any:
        if issubclass(type(value), type):
            return NotImplemented
        reducer = self.registry.reducer(type(value))
        found = None if reducer is None else reducer(value, self)  # type: ignore[arg-type]
        if found is None or len(found) < 6 or found[2] is None:
            return NotImplemented if found is None else found[:5]
        return (*found[:2], (found[5], found[2]), None, None, fill)

    def lose(self, value: Any, reason: str, hint: str = "") -> Any:
        marker = Gone(type(value).__name__, reason, hint)
        self.said.lost.append(marker)
        return gone, (marker.type_name, reason, hint)

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        self.said.notes.append((kind, reason))


class _Loading:
    def __init__(self, said: Said) -> None:
        self.said = said
        self.namespace: dict[str, Any] = {}
        self.work: list[Callable[[], None]] = []
        self.last: list[Callable[[], None]] = []

    def lost(self, type_name: str, reason: str, hint: str = "") -> Any:
        marker = Gone(type_name, reason, hint)
        self.said.lost.append(marker)
        return marker

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        self.said.notes.append((kind, reason))

    def later(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def afterwards(self, work: Callable[[], None]) -> None:
        self.last.append(work)


@dataclass
class Trip:
    """Values that were saved, to be made again as often as wanted."""

    content: bytes
    said: Said

    def back(self) -> Any:
        """Make the values again."""
        loads = _Loading(self.said)
        token = loading.LOADING.set(loads)  # type: ignore[arg-type]
        try:
            value = pickle.loads(self.content)  # noqa: S301 (just made)
            for work in loads.work:
                work()
            for work in loads.last:
                work()
        finally:
            loading.LOADING.reset(token)
        return value


def save(value: Any, registry: Registry | None = None) -> Trip:
    """Save a value."""
    stream, said = io.BytesIO(), Said()
    registry = registry or assemble.registry()
    registry.refresh()
    _Pickler(stream, registry, said).dump(value)
    return Trip(stream.getvalue(), said)


def trip(value: Any) -> Any:
    """Save a value and make it again; nothing may be lost."""
    saved = save(value)
    made = saved.back()
    assert not saved.said.lost
    return made
