"""How the kernel gives memory pages while a large stretch of it is filled.

Rule of this module: it is advice only; what cannot be advised here is left as it is.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Shorter stretches are not worth a system call.
LEAST_BYTES = 8 * 1024 * 1024
_HUGE, _NO_HUGE = 14, 15


@contextmanager
def filled_at_once(address: int, nbytes: int) -> Iterator[None]:
    """Have memory that was never touched filled with small pages, and joined to large ones later.

    A large page has to be found and cleared while everybody waits: 500 MB took half as long again with them.

    Parameters
    ----------
    address, nbytes : int
        The memory, of which nothing has been written yet.
    """
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
    if sys.platform != "linux" or nbytes < LEAST_BYTES:
        yield
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    advise(start, length, _NO_HUGE)
    try:
        yield
    finally:
        advise(start, length, _HUGE)
