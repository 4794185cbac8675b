"""Bytes at an address, and addresses of bytes.

Rule of this module: nothing here keeps the memory alive; whoever asks does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any


class _Buffer(ctypes.Structure):
    """``Py_buffer`` of CPython."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


#: Asks an object for all of its memory, to be read only.
_FULL_RO = 0x011C
_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = (ctypes.POINTER(_Buffer),)
_release.restype = None


def bytes_at(address: int, nbytes: int) -> memoryview:
    """Look at a stretch of memory without copying it.

    Parameters
    ----------
    address : int
        Where it begins.
    nbytes : int
        Its length.

    Returns
    -------
    memoryview
        Of single bytes; writing through it writes the memory.
    """
    if not nbytes:
        return memoryview(bytearray())
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


def cut(whole: memoryview, nbytes: int) -> Iterator[memoryview]:
    """Cut bytes into pieces of a length; the last one may be shorter."""
    for start in range(0, len(whole), nbytes):
        yield whole[start : start + nbytes]


def buffer_address(value: Any) -> int | None:
    """Return where the first element of an object with the buffer protocol is; None where it has none."""
    view = _Buffer()
    try:
        _get(value, ctypes.byref(view), _FULL_RO)
    except (BufferError, ValueError, TypeError):
        return None
    found, nbytes = view.buf, view.len
    _release(ctypes.byref(view))
    return int(found) if found and nbytes else None
