"""The capture of a namespace: one pickler, one memo, one dump after another.

Rules of this module: what a class says of itself is asked inside a guard, so that a value that cannot be
saved costs itself; deep structures are told by `Deep`, and captured anew on a larger stack.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable, Sequence
from sys import getrefcount
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph import hashing, known, lost
from jupyter_gpupool.state.graph.naming import name_of, reason_of, type_name_of
from jupyter_gpupool.state.graph.remarks import Remark
from jupyter_gpupool.state.graph.usual import (
    Singletons,
    guarded,
    is_plain_object,
    is_trusted,
    take_apart,
)
from jupyter_gpupool.state.kinds import is_a
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, Registry, recipe_for

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.stream import Pieces
    from jupyter_gpupool.state.memory.roots import RootTable

#: How often a value is asked again that another thread changed meanwhile.
_TRIES = 3
_ENDLESS = "its own code never ends (RecursionError)"
How = Callable[[Any], Any]
#: References to the dict of an object that nobody else knows, while it is counted.
_OWN = 2
#: Builtin types that a pickler in Python knows, and that it is to ask about.
_ASKED = frozenset({type, FunctionType})
_new_object: Any = vars(copyreg)["__newobj__"]


def _PLAIN(value: Any) -> Any:  # noqa: N802 (stands for objects that the pickler knows best)
    """Leave an object with a dict and no hooks to the pickler."""
    return NotImplemented


class Deep(Exception):
    """Raised when a structure is too deep for the stack, or a value's own code never ends."""

    def __init__(self, value: Any) -> None:
        super().__init__("the structure is deeper than the stack")
        self.value = value


class Unsaved:
    """Stands for a variable that is not saved, as was found in a pass before this one.

    Parameters
    ----------
    value : object
        The variable.
    reason : str
        Why it is not saved.
    """

    def __init__(self, value: Any, reason: str) -> None:
        self.value, self.reason = value, reason


class _Plain(pickle.Pickler):
    """The pickler of C, with a place for an override of its own."""


class Capture:
    """One capture that is going on: what reducers are given.

    Parameters
    ----------
    namespace : dict
        The namespace that is captured.
    registry : Registry
        Which recipe is for which type.
    roots : RootTable
        Memory that arrays and tensors look at.
    pieces : Pieces
        Takes the stream.
    hopeless : dict of int to object
        Values whose own code never ends, by id.
    shells : sequence of set and dict
        Containers that are made empty, and filled at the end.
    large : bool
        Whether the stack is a large one: what runs into its end never ends.
    slow : bool
        Use the pickler that is written in Python, which no stack limits.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        registry: Registry,
        roots: RootTable,
        pieces: Pieces,
        *,
        hopeless: dict[int, Any] | None = None,
        shells: Sequence[Any] = (),
        large: bool = False,
        slow: bool = False,
    ) -> None:
        self.namespace = namespace
        self.roots = roots
        self.notes: dict[str, Any] = {}
        self.remarks: list[Remark] = []
        self.variable = ""
        self._registry = registry
        self._large = large
        self._singletons = Singletons()
        self._hopeless = {} if hopeless is None else hopeless
        self._how: dict[type, How | None] = {}
        self._hashed: set[type] = set()
        live = known.here(namespace)
        self._shells = shells
        kind: Any = _InPython if slow else _Plain
        self._pickler: Any = kind(pieces, 5)
        setattr(self._pickler, "asks" if slow else "reducer_override", self._override())
        pieces.write(known.preamble([*live, *(type(one).__name__ for one in shells)]))
        self._pickler.memo = known.memo([*live.values(), *shells])
        self.dump = self._pickler.dump

    def let_go(self) -> None:
        """Let go of all that was met: what a memo holds looks as if somebody else knew it."""
        self._pickler.clear_memo()
        del self.dump, self._pickler

    def dump_shells(self) -> None:
        """Say what the containers hold that were made empty."""
        self.dump([(one, hashing.contents(one)) for one in self._shells])

    def unsafe(self) -> list[Any]:
        """Return the containers that have to be made empty, because their keys' hashes may not work yet."""
        if not self._hashed or self._shells:
            return []
        return hashing.keyed_by([value for _, value in self._pickler.memo.copy().values()], self._hashed)

    def lose(self, value: Any, reason: str, hint: str = "") -> Reduced:
        """Save a marker in place of a value, and report it."""
        self.note(value, FindingKind.NOT_SAVED, reason, hint)
        if is_a(value, type):
            return lost.lost_class, (name_of(value), reason, hint)
        return lost.marker, (type_name_of(value), reason, hint)

    def note(self, value: Any, kind: FindingKind, reason: str, hint: str = "") -> None:
        """Report something about a value."""
        self.remarks.append(Remark(value, kind, reason, hint, self.variable))

    def modules(self) -> set[str]:
        """Return the top-level modules of the types that were met."""
        found = {getattr(kind, "__module__", None) for kind in self._how}
        return {module.partition(".")[0] for module in found if isinstance(module, str)} - {"__main__"}

    def _override(self) -> How:
        """Return what the pickler asks about every value that is not a builtin one."""
        how, classify = self._how, self._classify

        def override(value: Any) -> Any:
            kind = type(value)
            try:
                found = how[kind]
            except KeyError:
                found = classify(kind)
            except Exception as error:  # its metaclass says how it is hashed
                return self.lose(value, _reason(value, error))
            if found is None:
                return NotImplemented
            if found is _PLAIN:  # nobody else knows its dict: it is held here, and by its owner
                return NotImplemented if getrefcount(value.__dict__) == _OWN else self._shared(value)
            return found(value)

        return override

    def _classify(self, kind: type) -> How | None:
        try:
            found = self._way(kind)
        except Exception as error:  # the metaclass says what a class answers
            reason = _reason(kind, error)
            return lambda value: self.lose(value, reason)
        self._how[kind] = found
        return found

    def _way(self, kind: type) -> How | None:
        recipe = self._registry.reducer(kind)
        if recipe is not None:
            return lambda value: self._asked(value, lambda: recipe(value, self))
        names = self._singletons.of(kind)
        if names:
            return lambda value: self._singleton(value, names)
        if is_trusted(kind):
            return None
        if not is_plain_object(kind):
            return self._usual
        return self._with_own_hash if hashing.has_own_hash(kind) else _PLAIN

    def _with_own_hash(self, value: Any) -> Any:
        """Take a value apart whose hash is code of its class."""
        if getrefcount(value.__dict__) != _OWN:
            return self._shared(value)
        parts = hashing.in_two_steps(value)
        if parts is None:
            return NotImplemented
        self._hashed.add(type(value))
        return guarded(parts)

    def _shared(self, value: Any) -> Any:
        """Take a value apart whose dict somebody else knows."""
        state = value.__dict__
        return guarded((_new_object, (type(value),), state, None, None, hashing.set_own_dict))

    def _singleton(self, value: Any, names: dict[int, tuple[str, str]]) -> Any:
        name = names.get(id(value))
        return self._usual(value) if name is None else (known.named, name)

    def _usual(self, value: Any) -> Any:
        return self._asked(value, lambda: take_apart(value))

    def _asked(self, value: Any, ask: Callable[[], Reduced | None]) -> Any:
        """Ask for a value's parts; what fails becomes a marker."""
        if id(value) in self._hopeless:
            return self.lose(value, _ENDLESS)
        for left in reversed(range(_TRIES)):
            try:
                reduced = ask()
                if reduced is None:
                    return self._by_itself(value)
                if reduced[0] is lost.marker or reduced[0] is lost.lost_class:
                    return reduced
                return guarded(reduced)
            except RecursionError as error:
                if self._large:
                    return self.lose(value, _ENDLESS)
                raise Deep(value) from error
            except (MemoryError, KeyboardInterrupt):
                raise
            except BaseException as error:  # a class may raise SystemExit, and means only itself
                if left and isinstance(error, RuntimeError) and "during iteration" in str(error):
                    continue
                return self.lose(value, _reason(value, error))
        return self.lose(value, "another thread kept changing it")

    def _by_itself(self, value: Any) -> Any:
        """Leave a function or class to the pickler, which names it; all else is taken apart."""
        if is_a(value, type | FunctionType | BuiltinFunctionType):
            return NotImplemented
        return guarded(take_apart(value))


def _reason(value: Any, error: BaseException) -> str:
    text = str(error)
    if isinstance(error, TypeError) and text.startswith(("cannot pickle", "can't pickle", "Can't pickle")):
        return f"{type_name_of(value)} cannot be pickled, and there is no recipe for it"
    if isinstance(error, TypeError) and text.startswith("it"):
        return text
    return f"saving it failed: {reason_of(error)}"


class _InPython(pickle._Pickler):
    """The pickler of the standard library in Python: slower, and as deep as there is memory."""

    def __init__(self, pieces: Pieces, protocol: int) -> None:
        super().__init__(pieces, protocol)
        self.asks: How = _PLAIN

    def reducer_override(self, value: Any) -> Any:
        """Ask about all but builtin values, as the pickler of C does."""
        return (
            NotImplemented if type(value) in self.dispatch and type(value) not in _ASKED else self.asks(value)
        )


def _unsaved(one: Unsaved, capturing: Any) -> Reduced:
    reduced: Reduced = capturing.lose(one.value, one.reason)
    return reduced


RECIPES = (
    recipe_for(Unsaved, _unsaved),
    Recipe(
        module="jupyter_gpupool.state.graph.lost",
        qualname="Lost",
        reduce=lambda value, capturing: capturing.lose(value, *lost.loss_of(value)[1:]),
        subclasses=True,
        kind=lost.Lost,
    ),
)
