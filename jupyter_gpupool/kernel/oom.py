"""A cell that asks for more memory than its lease has: the error says which lease, and what can be done.

Rules of this module: the user's own exception and traceback stay as they are, a note is added; it runs when
memory is short, so it asks nobody and imports nothing; the handler stands in IPython only while a lease is
held, and whatever handler stood there before gets its turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.core.leases import Resource
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.kernel.render import mechanism

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.api import Lease
    from jupyter_gpupool.kernel.process import Process

#: First words of our note, by which a second one is avoided.
_MARK = "This went past the memory of lease"
#: What CPU allocators say in a plain RuntimeError.
_ALLOCATORS = re.compile(
    r"DefaultCPUAllocator: can't allocate memory|not enough memory: you tried to allocate"
)
#: Attribute of the shell under which the handlers that stood there before are kept.
_BEFORE = "_gpupool_before_translation"


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that memory could not be had."""
    if isinstance(error, MemoryError):
        return True
    if type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch"):
        return True
    return isinstance(error, RuntimeError) and bool(_ALLOCATORS.search(str(error)))


def explain(error: BaseException, leases: Iterable[Lease]) -> None:
    """Add a note to an out-of-memory error of a process under leases; other errors stay as they are."""
    if not is_out_of_memory(error) or any(n.startswith(_MARK) for n in getattr(error, "__notes__", ())):
        return
    for lease in leases:
        if _concerns(error, lease):
            error.add_note(note_for(lease))
            return


def _concerns(error: BaseException, lease: Lease) -> bool:
    """Tell whether a lease's kind of memory is the kind that ran out."""
    cuda = type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch")
    return lease.kind is not None and (lease.kind.value == "cuda") == cuda


def note_for(lease: Lease) -> str:
    """Write the note: the lease, its limit, what is in use, and what can be done."""
    limit = next((e for e in lease.isolation if e.resource is Resource.MEMORY), None)
    how = f" ({mechanism(limit)})" if limit is not None else ""
    used = memory_in_use()
    use = f", of which {format_memory(used)} are in use" if used is not None else ""
    more = (
        f"ask for more with `%gpupool resize {min(1.0, lease.share * 2):g}`, or " if lease.share < 1 else ""
    )
    step = f"{more}delete what you no longer need (`del name`)"
    return (
        f"{_MARK} {lease.id}: it has {format_memory(lease.memory_bytes)} of {lease.device}{how}{use}. "
        f"The lease and this process live on: {step}."
    )


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
            explain(error, process.held.values())
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
