"""Numpy arrays: who owns memory, and who looks at it.

Rules of this module: an array that owns its memory is saved as its bytes, any other one as where it looks, at
what; elements that are objects go through the stream one by one, so that they stay the same objects.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory import elements, looks
from jupyter_gpupool.state.memory.owners import exporter, known_owner
from jupyter_gpupool.state.memory.pointers import bytes_at
from jupyter_gpupool.state.memory.roots import INLINE_BYTES

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced


def reduce_array(array: Any, capturing: Capturing) -> Reduced | None:
    """Take an array apart: an owner, or a look at one."""
    if array.base is None and array.flags.owndata:
        return _reduce_owner(array, capturing)
    return _reduce_view(array, capturing)


def _extras(array: Any) -> dict[str, Any]:
    """Return attributes of an instance of a derived class: in its dict, or in slots."""
    own = dict(getattr(array, "__dict__", {}))
    for kind in type(array).__mro__[:-1]:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(array, name):
                own[name] = getattr(array, name)
    return own


def _reduced(array: Any, make: Any, args: tuple[Any, ...], content: Any = None) -> Reduced:
    writeable = bool(array.flags.writeable)
    extras = {} if type(array) is sys.modules["numpy"].ndarray else _extras(array)
    if writeable and not extras and content is None:
        return make, args
    return make, args, (writeable, extras, content), None, None, finish


def _reduce_owner(array: Any, capturing: Capturing) -> Reduced:
    dtype, shape = array.dtype, array.shape
    strides = looks.order(array)
    if looks.by_element(dtype):
        args = (_kind(array), dtype, shape, strides)
        return _reduced(array, make_elements, args, elements.take(array))
    low, high = looks.bounds(array)
    nbytes = high - low
    if nbytes != array.size * array.itemsize:
        return _reduce_sparse_owner(array, low, nbytes, capturing)
    capturing.roots.own(low, nbytes, array)
    content: Any = None
    if nbytes <= INLINE_BYTES and not capturing.roots.known(low):
        content = bytes(bytes_at(low, nbytes))
    else:
        content = capturing.roots.region(low, nbytes, array)
    return _reduced(array, make_owner, (_kind(array), dtype, shape, strides, content))


def _reduce_sparse_owner(array: Any, low: int, nbytes: int, capturing: Capturing) -> Reduced:
    """Save an array whose own strides leave bytes out, as a look at all of them."""
    number = capturing.roots.region(low, nbytes, array)
    return _reduce_look(array, _Region(number, nbytes), looks.address(array) - low)


def _reduce_view(array: Any, capturing: Capturing) -> Reduced:
    low, high = looks.bounds(array)
    at = looks.address(array)
    found = exporter(array, low, high)
    if found is not None:
        return _reduce_look(array, found[0], at - found[1])
    if looks.by_element(array.dtype):
        copy = array.copy()
        capturing.roots.keep(copy)
        return _reduce_owner(copy, capturing)
    owner = known_owner(capturing, low, high - low)
    if owner is not None:
        return _reduce_look(array, owner[0], owner[1] + at - low)
    number = capturing.roots.region(low, high - low, array)
    return _reduce_look(array, _Region(number, high - low), at - low)


def _kind(array: Any) -> Any:
    kind = type(array)
    return None if kind is sys.modules["numpy"].ndarray else kind


class _Region(tuple[int, int]):
    """What a look goes at when only the memory is known: a region's number and length."""

    __slots__ = ()

    def __new__(cls, number: int, nbytes: int) -> _Region:
        """Make one."""
        return super().__new__(cls, (number, nbytes))


def _reduce_look(array: Any, base: Any, offset: int) -> Reduced:
    shape, strides = array.shape, array.strides
    if not array.size:  # it looks at nothing, and its address may be anywhere
        offset = 0
    if isinstance(base, _Region):
        return _reduced(array, make_region_view, (_kind(array), *base, array.dtype, shape, strides, offset))
    return _reduced(array, make_view, (base, _kind(array), array.dtype, shape, strides, offset))


def reduce_row(row: Any, capturing: Capturing) -> Reduced | None:
    """Take a row of a structure apart that looks at its array; None for one that is by itself."""
    numpy: Any = sys.modules["numpy"]
    if not isinstance(row.base, numpy.ndarray) or row.dtype.hasobject:
        return None
    return make_row, (numpy.asarray(row),)


def make_row(array: Any) -> Any:
    """Make a row that looks at an array."""
    return array[()]


def make_owner(kind: Any, dtype: Any, shape: tuple[int, ...], strides: Any, content: bytes | int) -> Any:
    """Make an array that owns its memory, from bytes or from a region's number."""
    made = looks.empty(kind, dtype, shape, strides)
    low, high = looks.bounds(made)
    if isinstance(content, bytes):
        bytes_at(low, high - low)[:] = content
        return made
    owner = looks.flat(made)
    if current().regions.adopt(content, low, high - low, owner):
        return made
    base = current().regions.array(content, high - low)
    return looks.look(kind, base, dtype, shape, made.strides, looks.address(made) - low)


def make_elements(kind: Any, dtype: Any, shape: tuple[int, ...], strides: Any) -> Any:
    """Make an array whose elements are objects; they come later."""
    return looks.empty(kind, dtype, shape, strides)


def make_view(
    base: Any, kind: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Any:
    """Make an array that looks at what another object owns."""
    return looks.look(kind, base, dtype, shape, strides, offset)


def make_region_view(
    kind: Any,
    number: int,
    nbytes: int,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
) -> Any:
    """Make an array that looks at memory whose owner is not in the snapshot."""
    base = current().regions.array(number, nbytes)
    return looks.look(kind, base, dtype, shape, strides, offset)


def finish(array: Any, state: tuple[bool, dict[str, Any], Any]) -> None:
    """Give an array its elements, attributes, and last of all its flag that forbids writing."""
    writeable, extras, content = state
    if content is not None:
        elements.put(array, content)
    for name, value in extras.items():
        if hasattr(array, "__dict__"):
            array.__dict__[name] = value
        else:
            setattr(array, name, value)
    if not writeable and array.flags.writeable:
        current().later(lambda: array.setflags(write=False))
