"""A process that uses a GPU as it is told on stdin: what proves limits by exceeding them.

Rules of this module: it is run as a file by another process (`jupyter_gpupool.backends.nvidia.hand`), imports
nothing of ours and nothing but the standard library, and calls the driver through ctypes. One JSON object a
line comes in (``do`` names the command), one line of answer goes out, with ``error``: "" when it worked.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
_MULTIPROCESSOR_COUNT = 16
#: More multiprocessors than any GPU has.
_MOST_MULTIPROCESSORS = 1024
#: Blocks and threads of one launch: enough to fill any GPU several times.
_BLOCKS, _THREADS = 4096, 256
#: Multiply-adds of one thread in one launch, in fours.
_ROUNDS = 20_000
#: Where the CUDA runtime is looked for, newest first.
_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")


class Driver:
    """The CUDA driver, opened at the first call."""

    def __init__(self) -> None:
        self._library: Any = None
        self.context = ctypes.c_void_p()
        self.functions: dict[str, ctypes.c_void_p] = {}

    def call(self, function: str, *arguments: Any) -> str:
        """Call a function; return the name of its error, "" for success."""
        if self._library is None:
            try:
                self._library = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                return f"the CUDA driver cannot be loaded ({error})"
        status = getattr(self._library, function)(*arguments)
        if status == 0:
            return ""
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(text))
        return (text.value or f"CUDA error {status}".encode()).decode()


_driver = Driver()
_runtime: list[Any] = []


def init(environment: dict[str, str], **_: Any) -> dict[str, Any]:
    """Take over environment variables, initialise CUDA, and make a context on the first device."""
    os.environ.update({"CUDA_CACHE_DISABLE": "1", **environment})  # its kernels stay out of the user's cache
    device, context = ctypes.c_int(), _driver.context
    error = (
        _driver.call("cuInit", 0)
        or _driver.call("cuDeviceGet", ctypes.byref(device), 0)
        or _driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        or _driver.call("cuCtxSetCurrent", context)
    )
    return {"error": error}


def info(**_: Any) -> dict[str, Any]:
    """Say how much memory CUDA sees, bytes, and how many multiprocessors."""
    left, total, count = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    error = _driver.call("cuMemGetInfo_v2", ctypes.byref(left), ctypes.byref(total)) or _driver.call(
        "cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSOR_COUNT, 0
    )
    return {"error": error, "free": left.value, "total": total.value, "multiprocessors": count.value}


def alloc(**arguments: Any) -> dict[str, Any]:
    """Allocate ``bytes`` by cuMemAlloc."""
    pointer = ctypes.c_ulonglong()
    error = _driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(arguments["bytes"]))
    return {"error": error, "pointer": pointer.value}


def free(pointer: int, **_: Any) -> dict[str, Any]:
    """Give an allocation back."""
    return {"error": _driver.call("cuMemFree_v2", ctypes.c_ulonglong(pointer))}


def fill(most_bytes: int, step_bytes: int, **_: Any) -> dict[str, Any]:
    """Allocate in steps until it is refused or ``most_bytes`` are held; give everything back.

    ``reached`` is how much was held, bytes; ``refused`` the error that ended it, "" when nothing did.
    """
    pointers: list[int] = []
    refused = ""
    while not refused and (len(pointers) + 1) * step_bytes <= most_bytes:
        answer = alloc(bytes=step_bytes)
        refused = answer["error"]
        if not refused:
            pointers.append(answer["pointer"])
    errors = [free(pointer)["error"] for pointer in pointers]
    error = next((text for text in errors if text), "")
    return {"error": error, "reached": len(pointers) * step_bytes, "refused": refused}


def _open_runtime() -> Any:
    if not _runtime:
        found = [
            str(path)
            for folder in [*filter(None, sys.path), "/usr/local/cuda", "/opt/conda"]
            for pattern in ("nvidia/*/lib", "torch/lib", "lib64", "lib")
            for path in sorted(Path(folder).glob(f"{pattern}/libcudart*.so*"), reverse=True)
        ]
        for name in [*_RUNTIMES, *found]:
            try:
                _runtime.append(ctypes.CDLL(name))
                break
            except OSError:
                continue
    return _runtime[0] if _runtime else None


def runtime_alloc(**arguments: Any) -> dict[str, Any]:
    """Allocate ``bytes`` by the runtime's cudaMalloc and give it back; ``missing`` where there is none."""
    library = _open_runtime()
    if library is None:
        return {"error": "", "missing": "no libcudart was found"}
    library.cudaGetErrorName.restype = ctypes.c_char_p
    pointer = ctypes.c_void_p()
    status = library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(arguments["bytes"]))
    if status == 0:
        library.cudaFree(pointer)
        return {"error": "", "refused": ""}
    return {"error": "", "refused": library.cudaGetErrorName(status).decode()}


def load(ptx: str, **_: Any) -> dict[str, Any]:
    """Have the driver compile the kernels."""
    module = ctypes.c_void_p()
    error = _driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx.encode()))
    for name in ("work", "multiprocessors"):
        function = ctypes.c_void_p()
        error = error or _driver.call(
            "cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode())
        )
        _driver.functions[name] = function
    return {"error": error}


def _launch(name: str, *values: Any) -> str:
    """Launch a kernel and wait for it."""
    parameters = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
    )
    function = _driver.functions[name]
    return _driver.call(
        "cuLaunchKernel", function, _BLOCKS, 1, 1, _THREADS, 1, 1, 0, None, parameters, None
    ) or _driver.call("cuCtxSynchronize")


def spread(**_: Any) -> dict[str, Any]:
    """Count the multiprocessors that blocks really run on."""
    made = alloc(bytes=4 * _MOST_MULTIPROCESSORS)
    if made["error"]:
        return {"error": made["error"], "multiprocessors": 0}
    pointer, seen = ctypes.c_ulonglong(made["pointer"]), (ctypes.c_uint * _MOST_MULTIPROCESSORS)()
    size = ctypes.c_size_t(ctypes.sizeof(seen))
    error = (
        _driver.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), size)
        or _launch("multiprocessors", pointer)
        or _driver.call("cuMemcpyDtoH_v2", seen, pointer, size)
    )
    error = error or free(made["pointer"])["error"]
    return {"error": error, "multiprocessors": sum(mark == 1 for mark in seen)}


def work(seconds: float, **_: Any) -> dict[str, Any]:
    """Compute for a while; ``rate`` is launches a second."""
    made = alloc(bytes=4)
    pointer, rounds = ctypes.c_ulonglong(made["pointer"]), ctypes.c_uint(_ROUNDS)
    error = made["error"] or _launch("work", pointer, rounds)
    began, launches = time.monotonic(), 0
    while not error and time.monotonic() - began < seconds:
        error = _launch("work", pointer, rounds)
        launches += 1
    took = max(time.monotonic() - began, 1e-9)
    return {"error": error or free(made["pointer"])["error"], "rate": launches / took}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "init": init,
    "info": info,
    "alloc": alloc,
    "free": free,
    "fill": fill,
    "runtime_alloc": runtime_alloc,
    "load": load,
    "spread": spread,
    "work": work,
}


def main() -> None:
    """Answer commands until stdin ends."""
    for line in sys.stdin:
        command = json.loads(line)
        answer = _COMMANDS[command.pop("do")](**command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
