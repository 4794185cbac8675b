"""PyTorch in name only, on whatever ``libcuda.so.1`` is: it allocates, and keeps to its memory fraction."""

from __future__ import annotations

import ctypes
import os
import runpy
from pathlib import Path

_part = runpy.run_path(str(Path(__file__).parents[1] / "frameworks" / "torch.py"))
__version__ = _part["__version__"]
cuda = _part["cuda"]
cuda.uuid = os.environ.get("CUDA_VISIBLE_DEVICES", "").removeprefix("GPU-")
uint8 = "uint8"
_driver = ctypes.CDLL("libcuda.so.1")
_used = 0


class _Tensor:
    is_cuda = True


def _is_available() -> bool:
    return _driver.cuInit(0) == 0


def _begin() -> None:
    if not cuda.is_initialized():
        context = ctypes.c_void_p()
        _driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        _driver.cuCtxSetCurrent(context)
        cuda.init()


def zeros(size: int, dtype: str, device: str) -> _Tensor:
    """Allocate, as the caching allocator does: what is past the fraction never reaches CUDA."""
    global _used
    _begin()
    total = cuda.get_device_properties(0).total_memory
    pointer = ctypes.c_ulonglong()
    if _used + size > cuda.fractions[0] * total or _driver.cuMemAlloc_v2(
        ctypes.byref(pointer), ctypes.c_size_t(size)
    ):
        raise RuntimeError(f"CUDA out of memory. Tried to allocate {size} bytes.")
    _used += size
    return _Tensor()


cuda.is_available = _is_available
cuda.synchronize = cuda.empty_cache = lambda: None
