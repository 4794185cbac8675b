"""A cell that asks for more memory than its lease has, or meets an error of the GPU's sharing: what it means.

Rules of this module: the user's own exception and traceback stay as they are, a note is added; it runs when
memory is short, so it asks nobody and imports nothing; the handler stands in IPython only while a lease is
held, and whatever handler stood there before gets its turn.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.kernel.mps_errors import sentence_for
from jupyter_gpupool.kernel.words import mechanism

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.lease import Lease
    from jupyter_gpupool.kernel.process import Process

#: What CPU allocators say in a plain RuntimeError.
_ALLOCATORS = re.compile(
    r"DefaultCPUAllocator: can't allocate memory|not enough memory: you tried to allocate"
)
#: What says in a RuntimeError or MemoryError that it was the device's memory.
_DEVICE = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|RMM failure|RESOURCE_EXHAUSTED: Out of memory"
)
#: How torch says what it wanted.
_TRIED = re.compile(r"Tried to allocate ([\d.]+) (GiB|MiB|KiB|bytes)")
_UNITS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "bytes": 1}
#: Attribute of the shell under which the handlers that stood there before are kept.
_BEFORE = "_gpupool_before_translation"
#: Attribute of an error that has our note already.
_EXPLAINED = "_gpupool_explained"


def _is_of_device(error: BaseException) -> bool:
    """Tell whether it was a device's memory that could not be had."""
    kind = type(error)
    if kind.__name__ == "OutOfMemoryError" and kind.__module__.startswith(("torch", "cupy")):
        return True
    return bool(_DEVICE.search(str(error)))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that memory could not be had."""
    if isinstance(error, MemoryError) or _is_of_device(error):
        return True
    return isinstance(error, RuntimeError) and bool(_ALLOCATORS.search(str(error)))


def explain(error: BaseException, leases: Iterable[Lease]) -> None:
    """Add a note to an error that a lease has to do with; other errors stay as they are."""
    if getattr(error, _EXPLAINED, False):
        return
    for lease in leases:
        if note := _note(error, lease):
            error.add_note(note)
            with suppress(AttributeError, TypeError):  # an exception with slots
                setattr(error, _EXPLAINED, True)
            return


def _note(error: BaseException, lease: Lease) -> str:
    """Write what a lease has to do with an error; empty for nothing."""
    if lease.kind is DeviceKind.CUDA:
        compute = next((it for it in lease.isolation if it.resource is Resource.COMPUTE), None)
        under_mps = compute is not None and "MPS" in compute.mechanism
        if trouble := sentence_for(error, lease.device, under_mps=under_mps):
            return f"Lease {lease.id}: {trouble}"
    if lease.kind is None or not is_out_of_memory(error):
        return ""
    if _is_of_device(error) != (lease.kind is DeviceKind.CUDA):
        return ""
    return device_note(error, lease) if lease.kind is DeviceKind.CUDA else note_for(lease)


def _limit_of(lease: Lease) -> str:
    """Name what a lease has, and by what it is limited: "2.0 GiB of cpu (soft, by RLIMIT_DATA)"."""
    limit = next((it for it in lease.isolation if it.resource is Resource.MEMORY), None)
    how = f" ({mechanism(limit)})" if limit is not None else ""
    return f"{format_memory(lease.memory_bytes)} of {lease.device}{how}"


def _more(lease: Lease) -> str:
    if lease.share >= 1:
        return ""
    return f"ask for more with `%gpupool resize {min(1.0, lease.share * 2):g}`, or "


def note_for(lease: Lease) -> str:
    """Write the note: the lease, its limit, what is in use, and what can be done."""
    used = memory_in_use()
    use = f", of which {format_memory(used)} are in use" if used is not None else ""
    step = f"{_more(lease)}delete what you no longer need (`del name`)"
    return (
        f"This went past the memory of lease {lease.id}: it has {_limit_of(lease)}{use}. "
        f"The lease and this process live on: {step}."
    )


def device_note(error: BaseException, lease: Lease) -> str:
    """Write the same for a device's memory, which may also be full because of others."""
    used, tried = device_memory_in_use(lease), _tried(error)
    use = f", of which this process is known to use {format_memory(used)}" if used is not None else ""
    clear = "delete what you no longer need (`del name`, then `torch.cuda.empty_cache()`)"
    whole = lease.memory_bytes
    if used is not None and tried is not None and whole is not None and used + tried < whole:
        return (
            f"This did not go past the memory of lease {lease.id}: it has {_limit_of(lease)}{use}. "
            f"The device itself is full, or its memory is in pieces: `%gpupool devices` shows who uses it "
            f"without a lease; {clear}, or ask for another device."
        )
    return (
        f"This went past the memory of lease {lease.id}: it has {_limit_of(lease)}{use}. "
        f"The lease and this process live on: {_more(lease)}{clear}."
    )


def _tried(error: BaseException) -> int | None:
    """Return how much was asked for, bytes; None when the error does not say."""
    match = _TRIED.search(str(error))
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def device_memory_in_use(lease: Lease) -> int | None:
    """Return the device memory of this process, bytes: as torch counts it, else as the pool said last."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    with suppress(Exception):  # CUDA may be broken by the very error that is explained
        if cuda is not None and cuda.is_initialized():
            return int(cuda.memory_reserved())
    return lease.doc.memory_used_bytes


def memory_in_use() -> int | None:
    """Return this process's private data, bytes (the quantity that RLIMIT_DATA counts); None if unknown."""
    try:
        status = Path("/proc/self/status").read_text()
    except (OSError, MemoryError):
        return None
    match = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def translate_in(shell: Any, process: Process) -> None:
    """Explain out-of-memory errors in an IPython shell from now on."""
    if hasattr(shell, _BEFORE):
        return
    before_kinds, before_handler = shell.custom_exceptions, shell.CustomTB
    setattr(shell, _BEFORE, (before_kinds, before_handler))

    def handler(
        shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None
    ) -> Any:
        with suppress(MemoryError):  # not even a note can be had: the user's own error says enough
            explain(error, list(process.held.values()))
        if before_kinds and issubclass(kind, before_kinds):
            return before_handler(kind, error, trace, tb_offset=tb_offset)
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
        return None

    shell.set_custom_exc((*before_kinds, MemoryError, RuntimeError), handler)


def stop_translating_in(shell: Any) -> None:
    """Put back what stood in the shell before."""
    before = getattr(shell, _BEFORE, None)
    if before is None:
        return
    shell.custom_exceptions, shell.CustomTB = before
    delattr(shell, _BEFORE)
