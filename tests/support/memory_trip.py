"""A round trip through the recipes of memory alone: one pickle, chunks in a dict, no store, no code."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.memory.recipes import RECIPES
from jupyter_gpupool.state.memory.regions import Regions
from jupyter_gpupool.state.memory.roots import RootTable
from jupyter_gpupool.state.model import Details, FindingKind, Root
from jupyter_gpupool.state.recipes.registry import Registry


@dataclass(frozen=True)
class Gone:
    """What stands where a value was lost."""

    type_name: str
    reason: str
    hint: str = ""


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, namespace: dict[str, Any]) -> None:
        super().__init__(stream, protocol=5)
        self.registry = Registry(RECIPES)
        self.namespace, self.roots = namespace, RootTable()
        self.lost: list[Gone] = []
        self.notes: list[tuple[FindingKind, str]] = []

    def reducer_override(self, value: Any) -> Any:
        reducer = self.registry.reducer(type(value))
        found = None if reducer is None else reducer(value, self)  # type: ignore[arg-type]
        return NotImplemented if found is None else found

    def lose(self, value: Any, reason: str, hint: str = "") -> Any:
        self.lost.append(Gone(type(value).__name__, reason, hint))
        return Gone, (type(value).__name__, reason, hint)

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        self.notes.append((kind, reason))


@dataclass
class _Loading:
    regions: Regions
    namespace: dict[str, Any] = field(default_factory=dict)
    losses: list[Gone] = field(default_factory=list)
    notes: list[tuple[FindingKind, str]] = field(default_factory=list)
    work: list[Callable[[], None]] = field(default_factory=list)

    variable = ""

    def lost(self, type_name: str, reason: str, hint: str = "") -> Any:
        self.losses.append(Gone(type_name, reason, hint))
        return self.losses[-1]

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        self.notes.append((kind, reason))

    def later(self, work: Callable[[], None]) -> None:
        self.work.append(work)


@dataclass
class Trip:
    """A namespace that was saved, to be made again as often as wanted."""

    stream: bytes
    details: Details
    chunks: dict[bytes, bytes]
    lost: list[Gone]
    notes: list[tuple[FindingKind, str]]
    loaded: _Loading | None = None

    def read(self, ids: list[bytes], target: memoryview) -> None:
        """Read chunks into memory."""
        start = 0
        for one in ids:
            content = self.chunks[one]
            target[start : start + len(content)] = content
            start += len(content)
        assert start == len(target)

    def back(self, place: Callable[[str], str] | None = None, mapper: Any = None) -> dict[str, Any]:
        """Make the namespace again."""
        regions = Regions(self.details, self.read, place=place, mapper=mapper)
        self.loaded = _Loading(regions)
        token = loading.LOADING.set(self.loaded)  # type: ignore[arg-type]
        try:
            made: dict[str, Any] = pickle.loads(self.stream)  # noqa: S301 (just made)
            for work in self.loaded.work:
                work()
        finally:
            loading.LOADING.reset(token)
        return made


def save(**namespace: Any) -> Trip:
    """Save variables together."""
    stream = io.BytesIO()
    pickler = _Pickler(stream, namespace)
    pickler.dump(namespace)
    memory, offsets = pickler.roots.merge()
    chunks: dict[bytes, bytes] = {}
    roots = []
    for one in memory:
        ids = []
        for piece in one.chunks():
            content = bytes(piece)
            ids.append(blake2b(content, digest_size=32).digest())
            chunks[ids[-1]] = content
        roots.append(Root(nbytes=one.nbytes, chunks=ids, kind=one.kind, device=one.device))
    details = Details(variables=[], stream=[], roots=roots, offsets=offsets)
    return Trip(stream.getvalue(), details, chunks, pickler.lost, pickler.notes)


def trip(**namespace: Any) -> dict[str, Any]:
    """Save variables and make them again; nothing may be lost."""
    saved = save(**namespace)
    made = saved.back()
    assert not saved.lost
    assert saved.loaded is not None
    assert not saved.loaded.losses
    return made
