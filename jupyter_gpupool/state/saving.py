"""One checkpoint: the objects, then the memory, then the manifest.

Rules of this module: memory that threads of the user change meanwhile is saved again, and given up in the
end; what was saved is one moment, or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.errors import CaptureFailed
from jupyter_gpupool.state.graph import names, packages, threads
from jupyter_gpupool.state.graph.code import recipes as code
from jupyter_gpupool.state.graph.naming import type_name_of
from jupyter_gpupool.state.graph.parts import Parts, origins
from jupyter_gpupool.state.graph.taking import Taken, Wanted, take
from jupyter_gpupool.state.memory import recipes as memory
from jupyter_gpupool.state.memory.roots import Memory, RootTable
from jupyter_gpupool.state.model import Details, Finding, FindingKind, Manifest, Root
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.process.secrets import is_secret_variable
from jupyter_gpupool.state.recipes import assemble
from jupyter_gpupool.state.recipes.registry import Registry
from jupyter_gpupool.state.report import Report
from jupyter_gpupool.state.snapshot import Snapshot
from jupyter_gpupool.state.store.writer import Label, WriteOptions
from jupyter_gpupool.state.ticking import Ticker

if TYPE_CHECKING:
    from jupyter_gpupool.state.store.store import Store
    from jupyter_gpupool.state.store.writer import Writer

#: How often a namespace is saved again that threads of the user change meanwhile.
_TRIES = 3
#: Copies of what is new that may wait for the disk while the kernel goes on.
_STAGED_BYTES = 256 * 1024 * 1024


def registry() -> Registry:
    """Return all recipes."""
    return assemble.registry((*code.RECIPES, *memory.RECIPES))


class Job:
    """What is to be saved.

    Parameters
    ----------
    namespace : dict
        The namespace.
    only, skip : collection of str or None
        Names to save, and names to leave out.
    sections : bool
        Whether what of the process belongs to it is saved too.
    history : History or None
        What was typed and what came out, where the shell is not found by itself.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        *,
        only: Collection[str] | None = None,
        skip: Collection[str] | None = None,
        sections: bool = True,
        history: History | None = None,
    ) -> None:
        self.namespace = namespace
        self._only, self._skip = only, skip
        self._parts = Parts(namespace, history) if sections and only is None else None
        self._begun = time.monotonic()
        every = names.users(namespace)
        self._names = names.chosen(every, only, skip)
        chosen = set(self._names)
        left = [] if only is not None else [name for name in every if name not in chosen]
        self._found = [_left_out(name, namespace[name], "you asked for it") for name in left]
        self._leave_secrets()

    def _leave_secrets(self) -> None:
        """Leave variables out that are secrets by their name, but for those that were asked for by name."""
        secret = [
            name
            for name in self._names
            if is_secret_variable(name, self.namespace[name]) and name not in (self._only or ())
        ]
        if secret:
            self._names = [name for name in self._names if name not in set(secret)]
        why = "its name is that of a secret"
        self._found += [_left_out(name, self.namespace[name], why) for name in secret]

    def save(self, store: Store, label: Callable[..., Label], ticker: Ticker) -> Snapshot:
        """Save it."""
        return self._steadily(lambda: self._staged(store, label, ticker)).write()

    def stage(
        self, store: Store, label: Callable[..., Label], ticker: Ticker, *, most_bytes: int | None = None
    ) -> Staged:
        """Take it, with copies of what is new, to be written later."""
        how = {"copies": True, "queue_bytes": _STAGED_BYTES, "most_bytes": most_bytes}
        return self._steadily(lambda: self._staged(store, label, ticker, **how))

    def _steadily(self, work: Callable[[], Staged]) -> Staged:
        """Do something again while threads of the user change the namespace meanwhile."""
        left = _TRIES
        while True:
            try:
                return work()
            except CaptureFailed:
                left -= 1
                if not left or not threads.users_threads():
                    raise

    def _staged(self, store: Store, label: Callable[..., Label], ticker: Ticker, **how: Any) -> Staged:
        busy = bool(threads.users_threads())
        options = WriteOptions(watch=busy, progress=ticker.reached, cancel=ticker.cancel, **how)
        writer = store.begin(options)
        try:
            taken, details = self.graph(writer, ticker)
            self.memory(writer, taken.roots, details, ticker)
            if busy and not writer.unchanged():
                raise CaptureFailed(
                    "The namespace could not be saved: threads changed its arrays meanwhile.",
                    hint="Let the threads rest while the checkpoint is taken, and take it again.",
                )
            kept = None if options.copies else taken.roots
            return Staged(store, writer, details, self.label(taken, details, label), kept)
        except BaseException:
            writer.abort()
            raise

    def graph(self, writer: Writer, ticker: Ticker) -> tuple[Taken, Details]:
        """Take the objects."""
        self._told: list[Finding] = []
        tell = self._told.append
        wanted = Wanted(
            namespace=self.namespace,
            names=self._names,
            origins=origins(),
            first=[] if self._parts is None else self._parts.take(first=True, tell=tell),
            last=[] if self._parts is None else self._parts.take(first=False, tell=tell),
        )
        taken = take(wanted, registry(), writer.put, ticker.tick)
        details = Details(
            variables=taken.variables,
            stream=taken.segments,
            roots=[],
            sections=[section for section, _ in wanted.last],
            partial=self._only is not None or bool(self._skip),
        )
        return taken, details

    def memory(self, writer: Writer, table: RootTable, details: Details, ticker: Ticker) -> None:
        """Write the memory that the objects look at."""
        memories, offsets = table.merge()
        ticker.total_bytes = sum(one.nbytes for one in memories) + sum(one.nbytes for one in details.stream)
        details.roots.extend(_written(one, writer) for one in memories)
        details.offsets.extend(offsets)

    def label(self, taken: Taken, details: Details, label: Callable[..., Label]) -> Label:
        """Say what is known of it."""
        return label(
            seconds=time.monotonic() - self._begun,
            total_bytes=taken.stream_bytes + sum(root.nbytes for root in details.roots),
            count=len(details.variables),
            findings=[*taken.findings, *self._told, *self._found],
            environment=packages.environment(taken.modules),
        )


class Staged:
    """A namespace that was taken, and is to be written: in any thread, while the kernel goes on.

    Parameters
    ----------
    store : Store
        Where it is written to.
    writer : Writer
        Has what is new.
    details : Details
        The inside of the snapshot.
    label : Label
        What is said of it.
    kept : RootTable, optional
        The table of the memory that the writer still looks at: some of it is copies that nobody else has.
    """

    def __init__(
        self, store: Store, writer: Writer, details: Details, label: Label, kept: RootTable | None = None
    ) -> None:
        self._store, self._writer, self._details, self._label = store, writer, details, label
        self._kept = kept

    def write(self) -> Snapshot:
        """Make it a snapshot.

        Raises
        ------
        StoreFull, StoreUnavailable
            If it cannot be written; nothing is left of it then.
        """
        manifest = self._writer.commit(self._details, self._label)
        self._kept = None
        return Snapshot(self._store, manifest, report_of(manifest, self._details))

    def discard(self) -> None:
        """Give it up: nothing is left of it."""
        self._writer.abort()


def report_of(manifest: Manifest, details: Details) -> Report:
    """Say what a checkpoint saved."""
    return Report(
        action="checkpoint",
        snapshot=manifest.id,
        name=manifest.name,
        names=[variable.name for variable in details.variables],
        findings=manifest.findings,
        total_bytes=manifest.total_bytes,
        new_bytes=manifest.new_bytes,
        seconds=manifest.seconds,
    )


def _written(one: Memory, writer: Writer) -> Root:
    if one.fetch is None:
        chunks = [chunk for piece in one.chunks(max(one.nbytes, 1)) for chunk in writer.put(piece)]
    else:
        chunks = [chunk for piece in one.chunks() for chunk in writer.put(piece, transient=True)]
    return Root(nbytes=one.nbytes, chunks=chunks, kind=one.kind, device=one.device)


def _left_out(name: str, value: Any, why: str) -> Finding:
    return Finding(
        kind=FindingKind.LEFT_OUT, variable=name, path=name, type_name=type_name_of(value), reason=why
    )
