"""Whether this process has initialised CUDA already, and what that means for a lease.

CUDA reads its environment once, when it is initialised: a process that has done so takes no MPS limit and no
other device any more. Rule of this module: it only looks, and imports no framework.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.documents import DeviceDoc

#: What a process holds open from CUDA's initialisation on, by its last part: on Linux, and in WSL.
_DEVICE_FILES = frozenset({"nvidia-uvm", "dxg"})
_LIBRARY = "libcuda.so"
#: Ways of sharing whose limits reach a process only before it initialises CUDA.
_READ_ONCE = frozenset({"mps", "mig"})


def cuda_started() -> bool:
    """Tell whether CUDA is initialised in this process."""
    return _torch_says_so() or (_holds_device_file() and _has_library())


def _torch_says_so() -> bool:
    """Ask torch, if it is loaded already."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    asked = getattr(cuda, "is_initialized", None)
    return bool(asked()) if asked is not None else False


def _holds_device_file(proc: Path = Path("/proc/self")) -> bool:
    """Tell whether one of the driver's files that only CUDA opens is open here."""
    try:
        entries = list((proc / "fd").iterdir())
    except OSError:
        return False
    for entry in entries:
        with suppress(OSError):  # closed meanwhile
            if entry.readlink().name in _DEVICE_FILES:
                return True
    return False


def _has_library(proc: Path = Path("/proc/self")) -> bool:
    """Tell whether the driver's library is mapped here."""
    try:
        with (proc / "maps").open(errors="replace") as maps:
            return any(_LIBRARY in line for line in maps)
    except OSError:
        return False


def restart_gives_more(devices: Iterable[DeviceDoc]) -> bool:
    """Tell whether a process that had not initialised CUDA could get more than one that has."""
    cuda = [device for device in devices if device.kind is DeviceKind.CUDA and device.offered]
    return len(cuda) > 1 or any(device.sharing in _READ_ONCE for device in cuda)


def leftover_sentence(device: str) -> str:
    """Say what a process that has initialised CUDA keeps of a device after its lease is over."""
    return (
        f"CUDA still holds memory of {device} in this process, which counts as use without a lease: restart "
        "the kernel to give it back."
    )


def late_sentence() -> str:
    """Say what a request of a process that has initialised CUDA still gets, and what would give more."""
    return (
        "This process has initialised CUDA already, so limits and devices that CUDA reads at its start do "
        "not reach it. The request goes on: caps of the loaded frameworks and the watch on memory work, and "
        "the lease says what is in force. For all of it, restart the kernel and request before the first use "
        "of the GPU."
    )
