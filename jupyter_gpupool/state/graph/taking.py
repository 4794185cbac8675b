"""Taking a namespace: the pass over its objects, and then over the memory that they look at.

Rules of this module: the pass over the objects is one moment for threads of Python; memory is written after
it. The stream is: what of the process comes first, the definitions, one dump for each variable, the rest of
the process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from jupyter_gpupool.state.errors import CaptureFailed
from jupyter_gpupool.state.graph import deep, paths, threads
from jupyter_gpupool.state.graph.naming import reason_of, type_name_of
from jupyter_gpupool.state.graph.pickler import Capture, Deep, Unsaved
from jupyter_gpupool.state.graph.stream import Pieces, Put
from jupyter_gpupool.state.graph.summary import summary_of
from jupyter_gpupool.state.kinds import is_a
from jupyter_gpupool.state.memory.roots import RootTable
from jupyter_gpupool.state.model import Finding, Segment, Variable
from jupyter_gpupool.state.recipes.registry import Registry

#: How often a namespace is taken again that other threads change meanwhile.
_TRIES = 3
#: How many values whose own code never ends are met before the larger stack is tried.
_ENDLESS = 4
_TOO_DEEP = "it is deeper than a million levels, or makes new objects without an end while it is saved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is taken.

    Attributes
    ----------
    namespace : dict
        The namespace.
    names : list of str
        Which of its names.
    origins : mapping of str to str
        Files of modules of the user's own.
    first, last : sequence of (str, object)
        Sections of the process, before the definitions and after the variables.
    """

    namespace: dict[str, Any]
    names: list[str]
    origins: Mapping[str, str] = field(default_factory=dict)
    first: Sequence[tuple[str, Any]] = ()
    last: Sequence[tuple[str, Any]] = ()


@dataclass(kw_only=True, slots=True)
class Taken:
    """What was taken: the objects are in the stream, the memory is still to be written."""

    segments: list[Segment]
    variables: list[Variable]
    roots: RootTable
    findings: list[Finding]
    stream_bytes: int = 0
    modules: set[str] = field(default_factory=set)


def is_definition(value: Any) -> bool:
    """Tell whether a value is code, which others need when they are made again."""
    return is_a(value, FunctionType | ModuleType | type)


def take(wanted: Wanted, registry: Registry, put: Put, tick: Callable[[str], None] | None = None) -> Taken:
    """Take a namespace.

    Parameters
    ----------
    wanted : Wanted
        What is taken.
    registry : Registry
        Which recipe is for which type.
    put : callable
        Takes bytes into the store.
    tick : callable, optional
        Called with the name of each variable before it is taken; may raise to stop.

    Raises
    ------
    CaptureFailed
        If other threads change the namespace all the time.
    """
    registry.refresh()
    one = _Pass(wanted, registry, put, tick)
    for _ in range(_TRIES):
        try:
            return one.run()
        except Torn as error:
            last: Exception = error
        except RuntimeError as error:
            if not _is_of_threads(error):
                raise
            last = error
    raise CaptureFailed(
        "The namespace could not be saved: other threads changed it while it was looked at.",
        hint="Stop the threads that work on its containers, or wait for them, and take it again.",
    ) from last


def _is_of_threads(error: Exception) -> bool:
    """Tell whether an error says that something was changed while it was looked at."""
    return isinstance(error, RuntimeError) and ("during iteration" in str(error) or "mutated" in str(error))


class Torn(Exception):
    """Raised when another thread has run during a pass: what it saw may never have been there at once."""


class _Pass:
    """Passes over the objects until one gets through."""

    def __init__(
        self, wanted: Wanted, registry: Registry, put: Put, tick: Callable[[str], None] | None
    ) -> None:
        self._wanted, self._registry, self._put, self._tick = wanted, registry, put, tick
        self._hopeless: dict[int, Any] = {}
        self._shells: list[Any] = []
        self._unsaved: dict[str, str] = {}
        self._at = ""

    def run(self) -> Taken:
        for _ in range(_ENDLESS):
            try:
                return self._without_broken()
            except Deep as error:
                if not deep.never_ends(error.value, self._registry):
                    break
                self._hopeless[id(error.value)] = error.value
            except RecursionError:
                break
        return self._on_large_stack()

    def _on_large_stack(self) -> Taken:
        while True:
            try:
                return deep.on_large_stack(lambda slow: self._without_broken(large=True, slow=slow))
            except RecursionError as error:
                if not self._at or self._at in self._unsaved:
                    raise CaptureFailed(
                        "The namespace could not be saved: a function or class of it reaches a structure that"
                        " is deeper than any stack.",
                        hint="Leave it out (--except), and save again.",
                    ) from error
                self._unsaved[self._at] = _TOO_DEEP

    def _without_broken(self, **how: bool) -> Taken:
        """Pass over all but the variables that turn out to break a pass."""
        while True:
            try:
                return self._once(**how)
            except _Broken as error:
                self._unsaved[error.name] = error.reason

    def _once(self, *, large: bool = False, slow: bool = False) -> Taken:
        with threads.one_moment() as moment, _no_collection():
            # to show progress would let other threads run
            tick = self._on if self._tick is not None and moment.alone else None
            pieces = Pieces(self._put, held=not moment.alone, tick=tick)
            capture = Capture(
                self._wanted.namespace,
                self._registry,
                RootTable(),
                pieces,
                hopeless=self._hopeless,
                shells=self._shells,
                large=large,
                slow=slow,
            )
            try:
                variables = self._dump(capture, pieces)
                unsafe = capture.unsafe()
                if moment.broken():
                    raise Torn
            finally:
                capture.let_go()
        if unsafe:
            self._shells = unsafe
            return self._once(large=large, slow=slow)
        segments = pieces.finish()
        findings = paths.findings(capture.remarks, self._wanted.namespace, self._wanted.names)
        return Taken(
            segments=segments,
            variables=variables,
            roots=capture.roots,
            findings=findings,
            stream_bytes=pieces.nbytes,
            modules=capture.modules(),
        )

    def _on(self) -> None:
        if self._tick is not None:
            self._tick("")

    def _dump(self, capture: Capture, pieces: Pieces) -> list[Variable]:
        wanted, namespace = self._wanted, self._wanted.namespace
        self._at = ""
        capture.variable = "(process)"
        capture.dump(dict(wanted.origins))
        capture.dump(list(wanted.first))
        capture.variable = ""
        names = [name for name in wanted.names if name in namespace]
        capture.dump([(name, namespace[name]) for name in names if is_definition(namespace[name])])
        pieces.end_variable()
        variables = [self._variable(name, namespace[name], capture, pieces) for name in names]
        capture.variable = ""
        capture.dump_shells()
        for section in wanted.last:
            capture.variable = f"({section[0]})"
            capture.dump(section)
        return variables

    def _dump_one(self, name: str, value: Any, capture: Capture, pieces: Pieces) -> None:
        reason = self._unsaved.get(name)
        try:
            capture.dump(value if reason is None else Unsaved(value, reason))
        except (MemoryError, RecursionError, Deep):
            raise
        except Exception as error:
            if error is pieces.error or _is_of_threads(error):
                raise
            raise _Broken(name, f"saving it failed: {reason_of(error)}") from error

    def _variable(self, name: str, value: Any, capture: Capture, pieces: Pieces) -> Variable:
        if self._tick is not None:
            self._tick(name)
        capture.variable = self._at = name
        before = capture.roots.nbytes
        self._dump_one(name, value, capture, pieces)
        return Variable(
            name=name,
            type_name=type_name_of(value),
            summary=summary_of(value),
            nbytes=capture.roots.nbytes - before,
            digest=pieces.end_variable(),
        )


class _Broken(Exception):
    """Raised when a variable breaks the pass in a way that nobody foresaw: it is taken again without it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name)
        self.name, self.reason = name, reason


class _no_collection:  # noqa: N801 (used as a function)
    """Leaves cyclic garbage alone for a moment: looking for it costs more than the pass."""

    def __enter__(self) -> None:
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was:
            gc.enable()
