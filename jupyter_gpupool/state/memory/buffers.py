"""Buffers of the standard library: memoryviews, arrays of ``array``, and objects of ctypes.

Rule of this module: who owns memory owns it again, and who looks at it looks at the same object.
"""

from __future__ import annotations

import array as arrays
import ctypes
from types import GetSetDescriptorType
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.graph.code.functions import is_by_name
from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory.pointers import buffer_address, bytes_at
from jupyter_gpupool.state.memory.roots import INLINE_BYTES

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

#: Classes of ctypes' array and pointer types: they have no name that they could be found by.
ARRAY_TYPE, POINTER_TYPE = type(ctypes.c_int * 1), type(ctypes.POINTER(ctypes.c_int))
#: Classes of the types that a class statement makes.
LAID_OUT_TYPES = (type(ctypes.Structure), type(ctypes.Union), type(ctypes.c_int))
_FIELD: type = type(vars(type("_Sample", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_int)]}))["x"])
_MADE_AGAIN = frozenset({"__dict__", "__weakref__", "_b_base_", "_b_needsfree_", "_objects"})


def reduce_memoryview(view: memoryview, capturing: Capturing) -> Reduced:
    """Take a memoryview apart: whose memory it looks at, and how."""
    try:
        owner = view.obj
    except ValueError:
        return make_released, ()
    first = buffer_address(view)
    start = buffer_address(owner)
    offset = 0 if first is None or start is None else first - start
    how = (offset, view.format, tuple(view.shape or ()), tuple(view.strides or ()), view.readonly)
    return make_memoryview, (owner, *how)


def make_released() -> memoryview:
    """Make a memoryview that has been released."""
    view = memoryview(b"")
    view.release()
    return view


def make_memoryview(
    owner: Any, offset: int, form: str, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool
) -> memoryview:
    """Make a memoryview that looks at an object."""
    view = memoryview(owner)
    if readonly and not view.readonly:
        view = view.toreadonly()
    if (view.format, view.shape, view.strides, offset) == (form, shape, strides, 0):
        return view
    if len(shape) == 1 and view.ndim == 1 and view.format == form:
        return _sliced(view, offset, shape[0], strides[0])
    line = view if view.format == "B" and view.ndim == 1 else view.cast("B")
    nbytes = _length(shape, strides)
    if len(shape) == 1 and shape[0] > 1 and strides[0] != struct_size(form):
        size = struct_size(form)
        return _sliced(
            line[offset % size : len(line) - (len(line) - offset % size) % size].cast(form),  # type: ignore[call-overload]
            offset - offset % size,
            shape[0],
            strides[0],
        )
    part = line[offset : offset + nbytes]
    return part if (form, shape) == ("B", (nbytes,)) else part.cast(form, shape)  # type: ignore[call-overload]


def struct_size(form: str) -> int:
    """Return how many bytes an element of a format has."""
    import struct

    return struct.calcsize(form)


def _length(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return shape[0] * strides[0] if shape else (strides[0] if strides else 1)


def _sliced(view: memoryview, offset: int, length: int, stride: int) -> memoryview:
    start, step = offset // view.itemsize, stride // view.itemsize
    if not length:
        return view[:0]
    last = start + (length - 1) * step
    stop = last + (1 if step > 0 else -1)
    return view[start : None if stop < 0 else stop : step or 1]


def reduce_array(array: arrays.array[Any], capturing: Capturing) -> Reduced | None:
    """Take a large array of the ``array`` module apart."""
    nbytes = len(array) * array.itemsize
    address = buffer_address(array)
    if type(array) is not arrays.array or address is None:
        return None
    capturing.roots.own(address, nbytes, array)
    if nbytes <= INLINE_BYTES and not capturing.roots.known(address):
        return None
    return make_array, (array.typecode, len(array), capturing.roots.region(address, nbytes, array))


def make_array(typecode: str, length: int, number: int) -> Any:
    """Make an array of the ``array`` module and read its bytes."""
    made: Any = arrays.array(typecode, bytes(arrays.array(typecode).itemsize)) * length
    _fill(number, made, length * made.itemsize)
    return made


def _fill(number: int, made: Any, nbytes: int) -> None:
    address = buffer_address(made)
    if address is not None and not current().regions.adopt(number, address, nbytes, made):
        bytes_at(address, nbytes)[:] = current().regions.array(number, nbytes)


def reduce_ctypes(value: Any, capturing: Capturing) -> Reduced | None:
    """Take an object of ctypes apart; None where it goes the usual way, which refuses pointers."""
    value.__reduce__()
    address, nbytes = ctypes.addressof(value), ctypes.sizeof(value)
    owner = value._b_base_ if value._b_base_ is not None else _borrowed(value)
    if owner is not None:
        start = buffer_address(owner)
        if start is not None and start <= address:
            return make_ctypes_at, (type(value), owner, address - start)
    capturing.roots.own(address, nbytes, value)
    if nbytes <= INLINE_BYTES and not capturing.roots.known(address):
        return None
    return make_ctypes, (type(value), capturing.roots.region(address, nbytes, value))


def _borrowed(value: Any) -> Any:
    """Return the object whose buffer an object of ctypes was made on."""
    kept = value._objects
    for one in kept.values() if isinstance(kept, dict) else ():
        if isinstance(one, memoryview):
            return one.obj
    return None


def make_ctypes(kind: Any, number: int) -> Any:
    """Make an object of ctypes and read its bytes."""
    made = kind()
    _fill(number, made, ctypes.sizeof(made))
    return made


def make_ctypes_at(kind: Any, owner: Any, offset: int) -> Any:
    """Make an object of ctypes in the memory of another object."""
    return kind.from_buffer(owner, offset)


def reduce_array_type(kind: Any, capturing: Capturing) -> Reduced | None:
    """Take a type of ctypes' arrays apart: of what, and how many; None for one of a class statement."""
    of, length = getattr(kind, "_type_", None), getattr(kind, "_length_", 0)
    return (make_array_type, (of, length)) if of is not None and of * length is kind else None


def reduce_pointer_type(kind: Any, capturing: Capturing) -> Reduced | None:
    """Take a type of pointers apart: to what; None for one of a class statement."""
    to = getattr(kind, "_type_", None)
    return (ctypes.POINTER, (to,)) if to is not None and ctypes.POINTER(to) is kind else None


def reduce_laid_out_type(kind: Any, capturing: Capturing) -> Reduced | None:
    """Take a structure or union of the notebook apart: its layout is set last, for it may speak of itself."""
    if is_by_name(kind):
        return None
    held = {
        name: item for name, item in vars(kind).items() if name not in _MADE_AGAIN and not _is_field(item)
    }
    basics = {name: held.pop(name) for name in ("__module__", "__qualname__", "__doc__") if name in held}
    return make_laid_out_type, (kind.__name__, kind.__bases__, basics), held, None, None, fill_laid_out_type


def _is_field(item: Any) -> bool:
    return type(item) is _FIELD or isinstance(item, GetSetDescriptorType)


def make_laid_out_type(name: str, bases: tuple[Any, ...], basics: dict[str, Any]) -> Any:
    """Make a structure or union without a layout; a marker that is a class where its base is one."""
    if lost.is_lost(bases[0]):
        return current().lost_class(
            name, f"it is derived from {lost.loss_of(bases[0]).type_name}, which is lost"
        )
    return type(bases[0])(name, bases, basics)


def fill_laid_out_type(made: Any, held: dict[str, Any]) -> None:
    """Give a structure or union what it holds, and then its layout."""
    for name in sorted(held, key=lambda name: name == "_fields_"):
        setattr(made, name, held[name])


def make_array_type(of: Any, length: int) -> Any:
    """Make a type of ctypes' arrays."""
    return of * length
