"""The stream of objects read as symbols: what it would import and call, without doing any of it.

Rule of this module: nothing that a stream names is looked up, imported or called.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.state.errors import SnapshotDamaged

#: The calls that every stream of ours is made of.
MAKE = "jupyter_gpupool.state.graph.guard.make"
FILL = "jupyter_gpupool.state.graph.guard.fill"
_ATOMS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE"),
        *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "NONE", "NEWTRUE", "NEWFALSE"),
    }
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_LIST": "list", "EMPTY_DICT": "dict", "EMPTY_SET": "set", "EMPTY_TUPLE": "tuple"}
_PUTS = frozenset({"BINPUT", "LONG_BINPUT", "PUT"})
_GETS = frozenset({"BINGET", "LONG_BINGET", "GET"})
_IGNORED = frozenset({"PROTO", "FRAME", "READONLY_BUFFER"})


class Symbol:
    """An object of the stream: what kind it is, and what it consists of.

    Attributes
    ----------
    kind : str
        "list", "dict", "set", "tuple", "frozenset", "bytearray", "global" or "call".
    name : str
        For a global: module and name.
    parts : list
        Symbols and plain atoms, in the order of the stream.
    """

    __slots__ = ("kind", "name", "parts")

    def __init__(self, kind: str, parts: list[Any] | None = None, name: str = "") -> None:
        self.kind, self.name = kind, name
        self.parts: list[Any] = [] if parts is None else parts


class _Forward:
    """A stream that is read on and on: what looks for a position would have to seek."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self.read, self.readline = stream.read, stream.readline


class _Mark:
    """Where a group of values on the stack begins."""


_MARK = _Mark()


class Symbols:
    """Reads one stream, dump after dump.

    Parameters
    ----------
    stream : file
        The stream.
    """

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream: Any = _Forward(stream)
        self._memo: dict[int, Any] = {}
        self._stack: list[Any] = []
        self.globals: dict[str, Symbol] = {}
        self.calls: list[Symbol] = []

    def load(self) -> Any:
        """Return the symbol of the next dump's value."""
        self._stack = []
        try:
            for opcode, argument, _ in pickletools.genops(self._stream):
                self._step(opcode.name, argument)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise SnapshotDamaged(
                f"The objects of the snapshot cannot be read: {error}.", hint="Restore an older snapshot."
            ) from error
        return self._stack.pop()

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _ATOMS:
            stack.append(_CONSTANTS.get(name, argument))
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _GETS:
            stack.append(self._memo[int(argument)])
        elif name in _PUTS:
            self._memo[int(argument)] = stack[-1]
        elif name in _EMPTY:
            stack.append(Symbol(_EMPTY[name]))
        elif name == "MARK":
            stack.append(_MARK)
        elif name not in _IGNORED:
            _STEPS[name](self, argument)

    def group(self) -> list[Any]:
        """Take what is on the stack above the last mark."""
        taken: list[Any] = []
        while (top := self._stack.pop()) is not _MARK:
            taken.append(top)
        taken.reverse()
        return taken

    def add(self, parts: list[Any]) -> None:
        """Add parts to what is on top of the stack."""
        top = self._stack[-1]
        if isinstance(top, Symbol):
            top.parts.extend(parts)

    def take(self, number: int) -> list[Any]:
        """Take some values from the stack."""
        taken = self._stack[-number:]
        del self._stack[-number:]
        return taken

    def drop(self, taken: list[Any]) -> None:
        """Let go of what was taken."""

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def named(self, module: str, name: str) -> Symbol:
        """Return the symbol of what a module calls by a name."""
        full = f"{module}.{name}"
        return self.globals.setdefault(full, Symbol("global", name=full))

    def call(self, function: Any, arguments: Any) -> None:
        """Take in a call; what fills an object becomes part of it."""
        if isinstance(function, Symbol) and function.name == FILL and isinstance(arguments, Symbol):
            value, parts = arguments.parts
            if isinstance(value, Symbol):
                value.parts.append(parts)
            self.push(value)
            return
        made = Symbol("call", [function, arguments])
        self.calls.append(made)
        self.push(made)


def _tuple(number: int) -> Callable[[Symbols, Any], None]:
    return lambda symbols, _: symbols.push(Symbol("tuple", symbols.take(number)))


def _global(symbols: Symbols, argument: Any) -> None:
    module, _, name = str(argument).partition(" ")
    symbols.push(symbols.named(module, name))


def _stack_global(symbols: Symbols, argument: Any) -> None:
    module, name = symbols.take(2)
    symbols.push(symbols.named(str(module), str(name)))


def _state(symbols: Symbols, argument: Any) -> None:
    (state,) = symbols.take(1)
    symbols.add([state])


_STEPS: dict[str, Callable[[Symbols, Any], None]] = {
    "TUPLE": lambda symbols, _: symbols.push(Symbol("tuple", symbols.group())),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "LIST": lambda symbols, _: symbols.push(Symbol("list", symbols.group())),
    "DICT": lambda symbols, _: symbols.push(Symbol("dict", symbols.group())),
    "FROZENSET": lambda symbols, _: symbols.push(Symbol("frozenset", symbols.group())),
    "APPEND": lambda symbols, _: symbols.add(symbols.take(1)),
    "APPENDS": lambda symbols, _: symbols.add(symbols.group()),
    "SETITEM": lambda symbols, _: symbols.add(symbols.take(2)),
    "SETITEMS": lambda symbols, _: symbols.add(symbols.group()),
    "ADDITEMS": lambda symbols, _: symbols.add(symbols.group()),
    "BYTEARRAY8": lambda symbols, argument: symbols.push(Symbol("bytearray", [bytes(argument)])),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": lambda symbols, _: symbols.call(*symbols.take(2)),
    "NEWOBJ": lambda symbols, _: symbols.push(Symbol("call", symbols.take(2))),
    "NEWOBJ_EX": lambda symbols, _: symbols.push(Symbol("call", symbols.take(3))),
    "BUILD": _state,
    "POP": lambda symbols, _: symbols.drop(symbols.take(1)),
    "POP_MARK": lambda symbols, _: symbols.drop(symbols.group()),
    "DUP": lambda symbols, _: symbols.push(symbols._stack[-1]),
    "STOP": lambda symbols, _: None,
}


def made(symbol: Symbol) -> tuple[str, list[Any]] | None:
    """Return what a symbol is made by, as the name of a function and its arguments; None for another one."""
    if symbol.kind != "call" or len(symbol.parts) < 2:
        return None
    function, arguments = symbol.parts[0], symbol.parts[1]
    if isinstance(function, Symbol) and function.name == MAKE and isinstance(arguments, Symbol):
        function, arguments = arguments.parts
    if not isinstance(function, Symbol) or not isinstance(arguments, Symbol):
        return None
    return function.name, arguments.parts
