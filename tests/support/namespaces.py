"""Namespaces of this process that are saved and restored: each is the dict of a ``__main__`` of its own."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import ModuleType
from typing import Any

from jupyter_gpupool import state
from jupyter_gpupool.state.report import Report
from jupyter_gpupool.state.snapshot import Snapshot
from jupyter_gpupool.state.store.opening import memory_store
from jupyter_gpupool.state.store.store import Store

_NUMBERS = count(1)


class Kernel:
    """A namespace that code runs in."""

    def __init__(self) -> None:
        self.module = ModuleType("__main__")
        self.namespace: dict[str, Any] = self.module.__dict__

    def run(self, source: str) -> None:
        """Run a cell."""
        name = f"<cell {next(_NUMBERS)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        with self.current():
            exec(compile(source, name, "exec", dont_inherit=True), self.namespace)  # noqa: S102 (a cell)

    def eval(self, source: str) -> Any:
        """Evaluate an expression."""
        with self.current():
            return eval(source, self.namespace)  # noqa: S307 (a cell)

    def __getitem__(self, name: str) -> Any:
        return self.namespace[name]

    def save(self, store: Store, name: str = "it", **options: Any) -> Snapshot:
        """Save the namespace, without what of the process belongs to it."""
        with self.current():
            return state.capture(self.namespace, store=store, name=name, **{"sections": False, **options})

    def restore(self, snapshot: Snapshot, **options: Any) -> Report:
        """Restore into it."""
        with self.current():
            report: Report = state.restore(snapshot, self.namespace, **options)
        return report

    @contextmanager
    def current(self) -> Iterator[None]:
        """Be ``__main__`` meanwhile."""
        before = sys.modules["__main__"]
        sys.modules["__main__"] = self.module
        try:
            yield
        finally:
            sys.modules["__main__"] = before


class Trip:
    """Cells that were run and saved, and a second kernel that they were restored into."""

    def __init__(self, *cells: str, **options: Any) -> None:
        self.store = memory_store()
        self.before, self.after = Kernel(), Kernel()
        for cell in cells:
            self.before.run(cell)
        self.snapshot = self.before.save(self.store)
        self.saved: Report = self.snapshot.report or Report(action="checkpoint")
        self.report = self.after.restore(self.snapshot, **options)

    def holds(self, expression: str) -> bool:
        """Tell whether an expression is true where it was restored."""
        return bool(self.after.eval(expression))

    def paths(self, kind: str = "not_saved") -> list[str]:
        """Return the paths of what was reported after the restore."""
        return [finding.path for finding in self.report.findings if finding.kind.value == kind]
