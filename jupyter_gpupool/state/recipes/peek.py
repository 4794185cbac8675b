"""Fields of C objects that no attribute shows, read out of the object's own memory.

Rules of this module: only the words of the object itself are read, never what they point to; a pointer counts
only where the garbage collector names the same object; a field is used only after probes with known values
have shown where it is.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterable
from typing import Any

#: Length of a word of this machine, in bytes.
WORD_BYTES = ctypes.sizeof(ctypes.c_size_t)
#: Words that every object begins with.
HEADER_WORDS = object.__basicsize__ // WORD_BYTES


def words(value: Any) -> tuple[int, ...]:
    """Return the words of an object after its header, as unsigned numbers."""
    count = type(value).__basicsize__ // WORD_BYTES - HEADER_WORDS
    start = id(value) + HEADER_WORDS * WORD_BYTES
    return tuple((ctypes.c_size_t * count).from_address(start))


def signed(word: int) -> int:
    """Return a word as a signed number."""
    return ctypes.c_ssize_t(word).value


def low_int(word: int) -> int:
    """Return the C int in the lower half of a word."""
    return ctypes.c_int(word & 0xFFFFFFFF).value


def pointers(value: Any) -> list[Any]:
    """Return for each word of an object the object that it points to; None where it does not."""
    known = {id(found): found for found in gc.get_referents(value)}
    return [known.get(word) for word in words(value)]


def place(
    probes: Iterable[tuple[Any, Any]], read: Callable[[Any], list[Any] | tuple[Any, ...]] = words
) -> int | None:
    """Find the word at which each probe has its known value.

    Parameters
    ----------
    probes : iterable of (object, value)
        Objects that were made so that the field is known.
    read : callable
        Returns the words of an object as values to compare.

    Returns
    -------
    int or None
        The only place that fits all probes; None where there is none, or more than one.
    """
    places: set[int] | None = None
    for probe, wanted in probes:
        fits = {at for at, found in enumerate(read(probe)) if _same(found, wanted)}
        places = fits if places is None else places & fits
    return places.pop() if places and len(places) == 1 else None


def _same(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and bool(found == wanted)
