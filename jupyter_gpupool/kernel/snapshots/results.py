"""What saving and restoring give back: values that a program can read, and a person.

Rule of this module: plain values; showing one runs nothing, asks nobody, and imports what it needs then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.render import Rendering
    from jupyter_gpupool.state.looking import Difference as Compared
    from jupyter_gpupool.state.looking import Inspection
    from jupyter_gpupool.state.model import Finding, Manifest, Variable
    from jupyter_gpupool.state.report import Report


class Shown:
    """Something that a notebook and a terminal show."""

    def rendering(self) -> Rendering:
        """Return how it is shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.rendering().text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.rendering()._repr_mimebundle_()


@dataclass(frozen=True, kw_only=True, repr=False)
class Saved(Shown):
    """A snapshot that was saved.

    Attributes
    ----------
    manifest : Manifest
        Everything that is said of it.
    """

    manifest: Manifest

    @property
    def id(self) -> str:
        """Its id."""
        return self.manifest.id

    @property
    def name(self) -> str:
        """Its name."""
        return self.manifest.name

    @property
    def findings(self) -> list[Finding]:
        """What was not saved, or will not come back as it was, and why."""
        return list(self.manifest.findings)

    @property
    def total_bytes(self) -> int:
        """Bytes of all that it holds."""
        return self.manifest.total_bytes

    @property
    def new_bytes(self) -> int:
        """Bytes that were not in the store before."""
        return self.manifest.new_bytes

    @property
    def seconds(self) -> float:
        """How long the kernel was kept."""
        return self.manifest.seconds

    def rendering(self, *, whole: bool = False) -> Rendering:
        """Return how it is shown: its main points, or all of it."""
        from jupyter_gpupool.kernel.snapshots import show, words

        more = f"`%gpupool snapshots inspect {self.name or self.id}`"
        return show.report(words.saved(self.manifest), self.findings, more, whole=whole)


@dataclass(frozen=True, kw_only=True, repr=False)
class Restored(Shown):
    """A state that was brought back.

    Attributes
    ----------
    manifest : Manifest
        Everything that is said of the snapshot.
    report : Report
        What the engine said.
    """

    manifest: Manifest
    report: Report

    @property
    def names(self) -> list[str]:
        """The variables that were bound, as they are called now."""
        return list(self.report.names)

    @property
    def findings(self) -> list[Finding]:
        """What did not come back as it was, and why."""
        return list(self.report.findings)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.report.seconds

    def rendering(self, *, whole: bool = False) -> Rendering:
        """Return how it is shown: its main points, or all of it."""
        from jupyter_gpupool.kernel.snapshots import show, words

        head = words.restored(self.manifest, len(self.names), self.seconds)
        also = words.names_changed(self.report.removed, self.report.kept, whole=whole)
        notes = [*also, *words.again(self.findings), *self.report.warnings]
        return show.report(head, self.findings, "the report (or --report)", notes, whole=whole)


@dataclass(frozen=True, kw_only=True, repr=False)
class SnapshotList(Shown, Sequence["Manifest"]):
    """Snapshots, newest first.

    Attributes
    ----------
    manifests : tuple of Manifest
        All of them.
    damaged : dict of str to str
        What is wrong with those that cannot be read, by id.
    automatic : bool
        Whether those that nobody asked for are shown, too.
    """

    manifests: tuple[Manifest, ...]
    damaged: dict[str, str] = field(default_factory=dict)
    automatic: bool = True

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | Sequence[Manifest]:
        return self.manifests[index]

    def __len__(self) -> int:
        return len(self.manifests)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self.manifests)

    def rendering(self) -> Rendering:
        """Return them as a table."""
        from jupyter_gpupool.kernel.snapshots import show

        shown = [it for it in self.manifests if self.automatic or not it.automatic]
        return show.listing(shown, hidden=len(self.manifests) - len(shown), damaged=self.damaged)


@dataclass(frozen=True, kw_only=True, repr=False)
class Freed(Shown):
    """What was given back.

    Attributes
    ----------
    freed_bytes : int
        Bytes of the store.
    forgotten : int
        Old automatic snapshots that went.
    seconds : float
        How long it took.
    reason : str
        Why less was done than could be; empty when everything was.
    """

    freed_bytes: int
    forgotten: int
    seconds: float
    reason: str = ""

    def rendering(self) -> Rendering:
        """Return it as a sentence."""
        from jupyter_gpupool.kernel.snapshots import show

        return show.collected(self.freed_bytes, self.forgotten, self.seconds, self.reason)


@dataclass(frozen=True, kw_only=True, repr=False)
class Inside(Shown):
    """What is in a snapshot.

    Attributes
    ----------
    inspection : Inspection
        What the engine found, without running anything.
    """

    inspection: Inspection

    @property
    def manifest(self) -> Manifest:
        """Everything that is said of it."""
        return self.inspection.manifest

    @property
    def variables(self) -> list[Variable]:
        """Its variables."""
        return list(self.inspection.variables)

    def rendering(self) -> Rendering:
        """Return it as tables."""
        from jupyter_gpupool.kernel.snapshots import show

        return show.inside(self.inspection)


@dataclass(frozen=True, kw_only=True, repr=False)
class Difference(Shown):
    """Which variables differ between two snapshots.

    Attributes
    ----------
    first, second : Manifest
        The snapshots.
    difference : Difference
        What the engine found.
    """

    first: Manifest
    second: Manifest
    difference: Compared

    @property
    def added(self) -> list[str]:
        """Names that only the second has."""
        return [it.name for it in self.difference.added]

    @property
    def removed(self) -> list[str]:
        """Names that only the first has."""
        return [it.name for it in self.difference.removed]

    @property
    def changed(self) -> list[str]:
        """Names whose values differ."""
        return [it.name for it, _ in self.difference.changed]

    def rendering(self) -> Rendering:
        """Return it as a table."""
        from jupyter_gpupool.kernel.snapshots import show

        return show.difference(self.first, self.second, self.difference)
