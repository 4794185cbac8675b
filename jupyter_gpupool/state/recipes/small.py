"""Small things of the standard library that do not say themselves how they are saved.

Rule of this module: what is made is checked to be what was saved, or it is lost.
"""

from __future__ import annotations

import contextvars
import csv
import decimal
import functools
import gc
import itertools
import re
import struct
from types import SimpleNamespace
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes import peek
from jupyter_gpupool.state.recipes.plain import named, plain
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced, recipe_for

#: A match is looked for among so many matches of its pattern at most.
_MAX_MATCHES = 1_000_000
_DIALECT = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"),
    *("skipinitialspace", "strict"),
)
_CONTEXTS = ("DefaultContext", "BasicContext", "ExtendedContext")


def _match(value: re.Match[Any], capturing: Capturing) -> Reduced:
    where = (value.string, value.pos, value.endpos)
    for how in ("match", "fullmatch"):
        found = getattr(value.re, how)(*where)
        if found is not None and found.regs == value.regs:
            return make_match, (value.re, how, where)
    walk = itertools.islice(value.re.finditer(*where), _MAX_MATCHES)
    number = next((at for at, found in enumerate(walk) if found.regs == value.regs), None)
    if number is None:
        reason = "its pattern does not match there again"
        return capturing.lose(value, reason, "Keep its groups instead.")
    return make_match, (value.re, number, where)


def make_match(pattern: re.Pattern[Any], how: str | int, where: tuple[Any, int, int]) -> Any:
    """Match again."""
    if isinstance(how, str):
        return getattr(pattern, how)(*where)
    return next(itertools.islice(pattern.finditer(*where), how, None))


def _writer(value: Any, capturing: Capturing) -> Reduced:
    write = next(
        (held for held in gc.get_referents(value) if callable(held) and not isinstance(held, type)), None
    )
    if write is None:
        return capturing.lose(value, "this Python does not show where it writes to", "Make it again.")
    return make_writer, (write, value.dialect)


def make_writer(write: Any, dialect: Any) -> Any:
    """Make a writer of rows."""
    return csv.writer(SimpleNamespace(write=write), dialect)


def _reader(value: Any, capturing: Capturing) -> Reduced:
    lines = next((held for held in gc.get_referents(value) if hasattr(type(held), "__next__")), None)
    if lines is None:
        return capturing.lose(value, "this Python does not show what it reads", "Read the rows into a list.")
    return make_reader, (lines, value.dialect, value.line_num)


def make_reader(lines: Any, dialect: Any, number: int) -> Any:
    """Make a reader of rows that has read so many lines."""
    reader = csv.reader(itertools.chain(itertools.repeat("", number), lines) if number else lines, dialect)
    for _ in range(number):
        next(reader)
    return reader


def _dialect(value: Any, capturing: Capturing) -> Reduced:
    return make_dialect, ({name: getattr(value, name) for name in _DIALECT},)


def make_dialect(how: dict[str, Any]) -> Any:
    """Make a dialect of rows."""
    return csv.reader([], **how).dialect


def _context(value: decimal.Context, capturing: Capturing) -> Reduced | None:
    if value is decimal.getcontext():
        return decimal.getcontext, ()
    shared = next((name for name in _CONTEXTS if getattr(decimal, name) is value), None)
    return None if shared is None else (named, ("decimal", shared))


def _struct(value: struct.Struct, capturing: Capturing) -> Reduced:
    return type(value), (value.format,)


def _key(value: Any, capturing: Capturing) -> Reduced:
    compare = peek.pointers(value)[0]
    held = [value.obj] if len(gc.get_referents(value)) - (type(value) in gc.get_referents(value)) > 1 else []
    if not callable(compare):
        return capturing.lose(value, "this Python does not show how it compares", "Make it again.")
    return make_key, (compare, held)


def make_key(compare: Any, held: list[Any]) -> Any:
    """Make a key that compares with a function; around a value, or one that makes such keys."""
    key = functools.cmp_to_key(compare)
    return key(held[0]) if held else key


def _variables(value: contextvars.Context, capturing: Capturing) -> Reduced:
    return contextvars.Context, (), list(value.items()), None, None, fill_context


def fill_context(value: contextvars.Context, items: list[tuple[contextvars.ContextVar[Any], Any]]) -> None:
    """Set variables inside a context."""
    for variable, held in items:
        value.run(variable.set, held)


def _program(value: Any, capturing: Capturing) -> Reduced:
    if value.poll() is None:
        reason = "a running program is not saved with the one that started it"
        return capturing.lose(value, reason, "Start it again after a restore.")
    return plain(value)


RECIPES = (
    recipe_for(re.Match, _match),
    recipe_for(type(csv.writer(SimpleNamespace(write=str))), _writer),
    recipe_for(type(csv.reader([])), _reader),
    recipe_for(type(csv.reader([]).dialect), _dialect),
    recipe_for(decimal.Context, _context),
    recipe_for(struct.Struct, _struct),
    recipe_for(type(functools.cmp_to_key(max)), _key),
    recipe_for(contextvars.Context, _variables),
    Recipe(module="subprocess", qualname="Popen", reduce=_program, subclasses=True),
)
