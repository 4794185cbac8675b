"""Which processes are on a device.

Rules of this module: memory that the driver does not tell is None, never 0; entries are read as the driver
really writes them (some drivers of branch 535 write longer ones under the same name); the driver names
processes as the host does, so within a container a pid counts as ours only when that process evidently has
the GPU open.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.nvidia.gpu import GPU

#: The PID namespace of the host has this name on every Linux.
_HOST_NAMESPACE = "pid:[4026531836]"
#: Device files that a process has open when it uses CUDA (the second is that of WSL).
_DEVICE_FILES = ("nvidia-uvm", "dxg")
#: What the driver writes where it does not tell: memory, and the ids of instances.
_NO_BYTES = 2**64 - 1
_NO_ID = 2**32 - 1
#: Bytes of one entry, as documented, and as some drivers of branch 535 write it.
_ENTRY_BYTES = 24
_LONG_ENTRY_BYTES = 32
#: A byte that fills what the driver has not written.
_BLANK = 0xA5
#: Room for processes that come between the two calls.
_SPARE = 8
#: Newest form first; the third has no instances. Forms that a driver does not have are "driver too old".
_FORMS = (("_v3", _ENTRY_BYTES), ("_v2", _ENTRY_BYTES), ("", 16))


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUProcess:
    """A process on a device.

    Attributes
    ----------
    pid : int
        As the driver names it.
    memory_bytes : int or None
        What it uses of the device's memory, bytes; None when the driver does not say.
    via_mps : bool
        True when it is a client of MPS.
    visible : bool
        False when the pid is that of another PID namespace: it is no process that we can look at.
    graphics : bool
        True when it draws (a display server, a viewer).
    """

    pid: int
    memory_bytes: int | None
    via_mps: bool = False
    visible: bool = True
    graphics: bool = False


def device_processes(nvml: NVML, gpu: GPU, proc: Path = Path("/proc")) -> Reading[list[GPUProcess]]:
    """List the processes on a device, by pid.

    Parameters
    ----------
    nvml : NVML
        The door.
    gpu : GPU
        The device; a GPU in MIG mode lists what its instances list, where we have the permission.
    proc : Path
        Where processes are looked at.
    """
    handle = nvml.handle(gpu.uuid)
    if handle.value is None:
        return Reading(None, handle.reason)
    compute = _listed(nvml, gpu, handle.value, "nvmlDeviceGetComputeRunningProcesses")
    if compute.value is None:
        return Reading(None, compute.reason)
    # A driver that has no such list has no such processes.
    clients = _listed(nvml, gpu, handle.value, "nvmlDeviceGetMPSComputeRunningProcesses").value or {}
    drawing = _listed(nvml, gpu, handle.value, "nvmlDeviceGetGraphicsRunningProcesses").value or {}
    memory = drawing | compute.value | clients
    seen = _visible(memory, proc)
    return Reading(
        [
            GPUProcess(
                pid=pid,
                memory_bytes=memory[pid],
                via_mps=pid in clients,
                visible=pid in seen,
                graphics=pid in drawing and pid not in compute.value and pid not in clients,
            )
            for pid in sorted(memory)
        ]
    )


def _listed(nvml: NVML, gpu: GPU, handle: Any, function: str) -> Reading[dict[int, int | None]]:
    """Read one of the driver's lists, memory by pid, in the newest form that the driver has."""
    found: Reading[dict[int, int | None]] = Reading(None, Reason.DRIVER_TOO_OLD)
    for suffix, size in _FORMS:
        found = _entries(nvml, gpu, handle, function + suffix, size)
        if found.reason != Reason.DRIVER_TOO_OLD:
            break
    return found


def _entries(nvml: NVML, gpu: GPU, handle: Any, function: str, size: int) -> Reading[dict[int, int | None]]:
    count = ctypes.c_uint(0)
    result = nvml.native(function, handle, ctypes.byref(count), None)
    if result.value is None:
        return Reading(None, result.reason)
    if result.value == 0 and not count.value:
        return Reading({})
    room = count.value * 2 + _SPARE
    data = (ctypes.c_ubyte * (room * _LONG_ENTRY_BYTES))()
    ctypes.memset(data, _BLANK, len(data))
    count.value = room
    result = nvml.native(function, handle, ctypes.byref(count), data)
    if result.value != 0:
        return Reading(None, result.reason or "the list of processes changes too quickly")
    return Reading(_parsed(bytes(data), min(count.value, room), size, gpu))


def _parsed(data: bytes, count: int, size: int, gpu: GPU) -> dict[int, int | None]:
    """Read entries: pid, memory, and ids of the GPU instance and compute instance."""
    if size == _ENTRY_BYTES and data[count * size : count * _LONG_ENTRY_BYTES].strip(bytes([_BLANK])):
        size = _LONG_ENTRY_BYTES
    found: dict[int, int | None] = {}
    for start in range(0, count * size, size):
        pid = int.from_bytes(data[start : start + 4], "little")
        used = int.from_bytes(data[start + 8 : start + 16], "little")
        ids = [int.from_bytes(data[start + at : start + at + 4], "little") for at in (16, 20)]
        if size > 16 and gpu.is_mig and not _is_here(ids, gpu):
            continue
        one = None if used == _NO_BYTES else used
        before = found.get(pid, 0)
        found[pid] = None if one is None or before is None else before + one
    return found


def _is_here(ids: Iterable[int], gpu: GPU) -> bool:
    """Return True unless an entry is about another instance of the GPU."""
    own = (gpu.gpu_instance_id, gpu.compute_instance_id)
    return all(one in (_NO_ID, mine) or mine is None for one, mine in zip(ids, own, strict=True))


def _visible(pids: Iterable[int], proc: Path) -> set[int]:
    """Choose those pids that mean the same process to us as to the driver."""
    try:
        host = (proc / "self/ns/pid").readlink() == Path(_HOST_NAMESPACE)
    except OSError:
        host = False
    return {pid for pid in pids if (proc / str(pid)).exists() and (host or _has_device_open(proc, pid))}


def _has_device_open(proc: Path, pid: int) -> bool:
    """Return True when a process has a GPU's device file open, as far as we may look."""
    try:
        with os.scandir(proc / str(pid) / "fd") as descriptors:
            return any(_target(one.path).rpartition("/")[2] in _DEVICE_FILES for one in descriptors)
    except OSError:  # it ended, or it is not ours to look at
        return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - thousands of them; a Path for each costs more than the call
    except OSError:
        return ""
