"""Putting a snapshot back: everything is made aside, then the names change at once.

Rules of this module: until the end the live namespace has the new values only on loan, because classes of the
notebook look names up while their instances are made; whatever goes wrong, it is exactly as it was before.
"""

from __future__ import annotations

import builtins
import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_gpupool.state.graph import hashing, lost, names
from jupyter_gpupool.state.graph.loader import Readable, Restore
from jupyter_gpupool.state.graph.loading import LOADING
from jupyter_gpupool.state.graph.naming import reason_of
from jupyter_gpupool.state.graph.parting import parted
from jupyter_gpupool.state.graph.remarks import Remark
from jupyter_gpupool.state.graph.undo import Undo, change
from jupyter_gpupool.state.memory.regions import Regions
from jupyter_gpupool.state.model import Details, Finding, FindingKind
from jupyter_gpupool.state.process.section import Tell

#: Puts a section of the process back; returns how that is taken back, if it can be.
PutSection = Callable[[str, Any, Tell], Callable[[], object] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """How a snapshot is to be put back.

    Attributes
    ----------
    namespace : dict
        The live namespace.
    only : collection of str or None
        Names that are wanted; None for all.
    prefix : str
        Put before every name: what is there stays, and functions see only what came with them.
    """

    namespace: dict[str, Any]
    only: Collection[str] | None = None
    prefix: str = ""

    @property
    def whole(self) -> bool:
        """Whether the namespace becomes that of the snapshot."""
        return self.only is None and not self.prefix


@dataclass(kw_only=True, slots=True)
class Put:
    """What was put back."""

    names: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class Putting:
    """One restore.

    Parameters
    ----------
    details : Details
        The inside of the snapshot.
    stream : file
        Its objects.
    regions : Regions
        Its memory.
    wish : Wish
        How it is put back.
    put_section : callable
        Puts a section of the process back.
    tick : callable, optional
        Called with the name of each variable before it is made; may raise to stop.
    """

    def __init__(
        self,
        details: Details,
        stream: Readable,
        regions: Regions,
        wish: Wish,
        put_section: PutSection,
        tick: Callable[[str], None] | None = None,
    ) -> None:
        self._details, self._wish, self._put_section, self._tick = details, wish, put_section, tick
        self._undo = Undo(wish.namespace)
        self._users = set(names.users(wish.namespace))
        self._globals = wish.namespace if not wish.prefix else _apart()
        self._restore = Restore(self._globals, regions, stream)
        self._sections: list[tuple[str, Any]] = []
        self._found: list[Finding] = []

    def run(self) -> Put:
        """Put it back.

        Raises
        ------
        BaseException
            Whatever stopped it: the namespace and the process are as they were.
        """
        token = LOADING.set(self._restore)
        try:
            done = self._done()
        except BaseException:
            self._undo.undo()
            raise
        finally:
            LOADING.reset(token)
        self._afterwards()
        done.findings = self._findings()
        return done

    def _done(self) -> Put:
        with _uncollected():  # not for longer: whether it is on is one of the settings
            values = self._load()
        self._restore.finish(values)
        done = self._swap(values)
        self._put_sections(self._sections)
        return done

    def _afterwards(self) -> None:
        """Do what is left to do now that nothing but the namespace holds what was restored."""
        self._restore.let_go()
        self._sections = []
        for work in self._restore.after:
            try:
                work()
            except Exception as error:
                reason = f"something that was left to do failed: {reason_of(error)}"
                self._restore.note(None, FindingKind.NOT_SAVED, reason)

    def _findings(self) -> list[Finding]:
        wish, live = self._wish, self._wish.namespace
        every = [variable.name for variable in self._details.variables]
        values = {name: live[wish.prefix + name] for name in every if wish.prefix + name in live}
        found = _located(self._restore.remarks, values) + self._found
        return [one for one in found if wish.only is None or one.variable in wish.only]

    def _load(self) -> dict[str, Any]:
        """Make all objects again; the live namespace has them on loan meanwhile."""
        load, restore = self._restore.load, self._restore
        load()  # the objects of this process
        restore.variable = "(process)"
        restore.origins = load()
        self._put_sections(load())
        restore.variable = ""
        self._globals.update(load())
        values: dict[str, Any] = {}
        for variable in self._details.variables:
            if self._tick is not None:
                self._tick(variable.name)
            restore.variable = variable.name
            values[variable.name] = self._globals[variable.name] = load()
        hashing.fill(load())
        for section in self._details.sections:
            restore.variable = f"({section})"
            self._sections.append(load())
        return values

    def _put_sections(self, sections: Iterable[tuple[str, Any]]) -> None:
        if not self._wish.whole:
            return
        for name, value in sections:
            step = self._put_section(name, value, self._found.append)
            if step is not None:
                self._undo.then(step)

    def _swap(self, values: dict[str, Any]) -> Put:
        """Give the live namespace its names."""
        wish, done, live = self._wish, Put(), self._wish.namespace
        before = self._undo.before
        wanted = {
            wish.prefix + name: value
            for name, value in values.items()
            if wish.only is None or name in wish.only
        }
        done.kept = [name for name, value in wanted.items() if lost.is_lost(value) and name in before]
        users = self._users if wish.whole and not self._details.partial else set()
        done.removed = [name for name in before if name in users and name not in wanted]
        final = {name: value for name, value in before.items() if name not in done.removed}
        final |= {name: value for name, value in wanted.items() if name not in done.kept}
        change(live, final)
        self._found += parted(values, wish.only, before)
        done.names = [name for name in wanted if name not in done.kept]
        return done


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage while many objects are made that are none."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _located(remarks: list[Remark], values: dict[str, Any]) -> list[Finding]:
    """Say where the values are that there are remarks about."""
    if not remarks:
        return []
    from jupyter_gpupool.state.graph import paths

    return paths.findings(remarks, values, list(values))


def _apart() -> dict[str, Any]:
    """Return a namespace aside: restored functions under a prefix see what was saved with them."""
    return {"__name__": "__main__", "__builtins__": builtins, "__doc__": None}
