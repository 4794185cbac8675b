"""One snapshot in a store, as users hold it.

Rule of this module: it is a reference; the snapshot may be forgotten by somebody else at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpupool.state.model import Manifest
from jupyter_gpupool.state.report import Report

if TYPE_CHECKING:
    from jupyter_gpupool.state.store.reader import Reader
    from jupyter_gpupool.state.store.store import Store


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved namespace.

    Attributes
    ----------
    store : Store
        Where it is kept.
    manifest : Manifest
        What is known of it from outside.
    report : Report or None
        What was said when it was taken; None for one that was found.
    """

    store: Store
    manifest: Manifest
    report: Report | None = None

    @property
    def id(self) -> str:
        """Its unique id."""
        return self.manifest.id

    @property
    def name(self) -> str:
        """What its owner calls it."""
        return self.manifest.name

    def open(self, *, trust: bool = False) -> Reader:
        """Open it to be read."""
        return self.store.open(self.manifest.id, trust=trust)
