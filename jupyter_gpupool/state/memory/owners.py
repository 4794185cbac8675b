"""Whose memory something looks at, where only the address tells.

Rules of this module: an array's own base is asked first; a namespace is searched at most once in a capture,
to a bounded number of objects, and only when something looks at memory of somebody unknown.
"""

from __future__ import annotations

import array as arrays
import ctypes
import gc
import mmap
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.kinds import is_a, is_one_of
from jupyter_gpupool.state.memory.looks import address, bounds
from jupyter_gpupool.state.memory.pointers import buffer_address

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.memory.roots import RootTable

#: How many objects a search for an owner looks at, at most.
SEARCH_OBJECTS = 200_000
#: Objects of the standard library that own memory, or pass it on, with the buffer protocol.
BUFFERS = (
    *(bytes, bytearray, memoryview, arrays.array, mmap.mmap),
    *(ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData),
)
_ATOMS = (int, float, str, bool, complex, type(None), type(Ellipsis))
_NOT_FOLLOWED = (types.ModuleType, type, types.CodeType, types.FrameType, types.BuiltinFunctionType)


def exporter(array: Any, low: int, high: int) -> tuple[Any, int] | None:
    """Return the object that an array says it looks at, and where that one's first byte or element is.

    Parameters
    ----------
    array : numpy.ndarray
        One that does not own its memory.
    low, high : int
        The bytes that it looks at.

    Returns
    -------
    (object, int) or None
        None where it says nothing that can be used, or what it says does not hold those bytes.
    """
    import numpy as np

    base = array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            first, last = bounds(base)
            if first <= low and high <= last:
                return base, address(base)
            base = base.base
        elif isinstance(base, BUFFERS):
            start = buffer_address(base)
            return None if start is None else (base, start)
        elif is_tensor(base):
            return (base, base.data_ptr()) if base.is_contiguous() and base.device.type == "cpu" else None
        elif type(base).__name__ == "DummyArray" or isinstance(base, np.void):
            base = base.base
        else:
            return None
    return None


def is_tensor(value: Any) -> bool:
    """Tell whether something is a tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and is_a(value, torch.Tensor)


def known_owner(capturing: Capturing, low: int, nbytes: int) -> tuple[Any, int] | None:
    """Return the object of the namespace whose memory holds a stretch, and where in it that begins."""
    found = capturing.roots.owner(low, nbytes)
    if found is None and capturing.roots.search_once():
        search(capturing.namespace, capturing.roots)
        found = capturing.roots.owner(low, nbytes)
    return found


def search(namespace: dict[str, Any], roots: RootTable) -> None:
    """Tell the table of every owner of memory that is found below a namespace."""
    seen: set[int] = set()
    todo = list(namespace.values())
    while todo and len(seen) < SEARCH_OBJECTS:
        value = todo.pop()
        if is_one_of(type(value), _ATOMS) or id(value) in seen:
            continue
        seen.add(id(value))
        if not _told(value, roots):
            todo.extend(_below(value))


def _told(value: Any, roots: RootTable) -> bool:
    """Tell of one owner; True where there is nothing to look for below it."""
    numpy = sys.modules.get("numpy")
    if is_a(value, BUFFERS):
        start = None if is_a(value, memoryview) else buffer_address(value)
        if start is not None:
            with memoryview(value) as view:
                roots.own(start, view.nbytes, value)
        return not is_a(value, memoryview)
    if numpy is not None and is_a(value, numpy.ndarray):
        if value.base is None and value.flags.owndata:
            low, high = bounds(value)
            roots.own(low, high - low, value)
        return value.base is None and not value.dtype.hasobject
    if is_tensor(value):
        from jupyter_gpupool.state.memory.storages import own_storage

        own_storage(value, roots)
    return False


def _below(value: Any) -> Iterator[Any]:
    if is_a(value, types.FunctionType):
        yield value.__closure__
        yield value.__defaults__
    elif is_a(value, memoryview):
        yield value.obj
    elif not is_a(value, _NOT_FOLLOWED):
        if sys.modules.get("numpy") and is_a(value, sys.modules["numpy"].ndarray):
            yield value.base
        yield from gc.get_referents(value)
