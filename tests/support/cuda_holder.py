"""A holder of a GPU: a plain process that calls the CUDA driver through ctypes, as it is told on stdin.

One JSON object a line, one line of answer with ``error`` (the driver's name of it, "" for success):
``init`` {environment} (cuInit and a context on device 0), ``alloc`` {bytes} -> pointer, ``free`` {pointer},
``info`` -> free, total, ``devices`` -> count, ``multiprocessors``, ``work`` {launches} -> seconds, ``fault``
(an illegal access), ``fork`` -> what cuInit says in a child, ``attach`` {path, ticket} (shows a ticket to an
agent), ``exit``. It imports nothing of ours and needs no torch.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_PRIMARY = ctypes.c_void_p()


class Driver:
    """The calls that this process makes."""

    def __init__(self) -> None:
        self.library: Any = None

    def call(self, name: str, *arguments: Any) -> str:
        """Call a function and return the name of its error."""
        if self.library is None:
            try:
                self.library = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                return str(error)
        error = getattr(self.library, name)(*arguments)
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(error, ctypes.byref(text))
        return "" if error == 0 else (text.value or str(error).encode()).decode()


driver = Driver()


def init(environment: dict[str, str] | None = None, **_: Any) -> dict[str, Any]:
    """Initialise CUDA; what is in ``environment`` is set before."""
    os.environ.update(environment or {})
    device = ctypes.c_int()
    error = (
        driver.call("cuInit", 0)
        or driver.call("cuDeviceGet", ctypes.byref(device), 0)
        or driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(_PRIMARY), device)
        or driver.call("cuCtxSetCurrent", _PRIMARY)
    )
    return {"error": error}


def alloc(**arguments: Any) -> dict[str, Any]:
    """Allocate device memory."""
    pointer = ctypes.c_ulonglong()
    error = driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(arguments["bytes"]))
    return {"error": error, "pointer": pointer.value}


def free(pointer: int, **_: Any) -> dict[str, Any]:
    """Give device memory back."""
    return {"error": driver.call("cuMemFree_v2", ctypes.c_ulonglong(pointer))}


def info(**_: Any) -> dict[str, Any]:
    """Say how much memory CUDA says there is."""
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    error = driver.call("cuMemGetInfo_v2", ctypes.byref(left), ctypes.byref(total))
    return {"error": error, "free": left.value, "total": total.value}


def devices(**_: Any) -> dict[str, Any]:
    """Count the devices that it sees."""
    count = ctypes.c_int()
    return {"error": driver.call("cuDeviceGetCount", ctypes.byref(count)), "count": count.value}


def multiprocessors(**_: Any) -> dict[str, Any]:
    """Say how many multiprocessors CUDA says there are."""
    value = ctypes.c_int()
    error = driver.call("cuDeviceGetAttribute", ctypes.byref(value), 16, 0)
    return {"error": error, "multiprocessors": value.value}


def _function(name: bytes) -> tuple[str, ctypes.c_void_p]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    error = driver.call("cuModuleLoadData", ctypes.byref(module), b"fake") or driver.call(
        "cuModuleGetFunction", ctypes.byref(function), module, name
    )
    return error, function


def work(launches: int = 1, **_: Any) -> dict[str, Any]:
    """Launch a kernel some times."""
    error, function = _function(b"work")
    began = time.monotonic()
    for _number in range(launches):
        error = error or driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return {"error": error, "seconds": time.monotonic() - began}


def fault(**_: Any) -> dict[str, Any]:
    """Do what ends a context: an illegal access."""
    error, function = _function(b"fault")
    return {"error": error or driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)}


def fork(**_: Any) -> dict[str, Any]:
    """Say what cuInit says in a child that inherited CUDA."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, driver.call("cuInit", 0).encode() or b" ")
        os._exit(0)
    answer = os.read(read, 100).decode().strip()
    os.waitpid(child, 0)
    return {"error": "", "child": answer}


def attach(path: str, ticket: str, **_: Any) -> dict[str, Any]:
    """Show a ticket to an agent, say which frameworks are here, and take over the environment it gives."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(15)
        stream.connect(path)
        stream.sendall(json.dumps({"ticket": ticket, "format": 1}).encode() + b"\n")
        with stream.makefile("rb") as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
    os.environ.update(answer.get("environment", {}))
    return {"error": "", **answer}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "init": init,
    "alloc": alloc,
    "free": free,
    "info": info,
    "devices": devices,
    "multiprocessors": multiprocessors,
    "work": work,
    "fault": fault,
    "fork": fork,
    "attach": attach,
}


def main() -> None:
    """Answer commands until told to exit."""
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        if name == "exit":
            return
        print(json.dumps(_COMMANDS[name](**command)), flush=True)


if __name__ == "__main__":
    main()
