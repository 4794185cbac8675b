"""What the CPU backend refuses, and how it says so.

Rule of this module: a refusal names the process, both numbers, and the next step.
"""

from __future__ import annotations

import os
import re

from jupyter_gpupool.backends.base import BackendError, HolderGone, HolderTooLarge, ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.treememory import TreeMemory
from jupyter_gpupool.backends.undo import MemoryRung, Undo
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_memory
from jupyter_gpupool.protocol.messages import ShareOrder

#: What may name a control group.
_LEASE_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def check_share(lease_id: str, share: ShareOrder, device_id: str) -> None:
    """Refuse an order that is not about this device, or makes no sense.

    Raises
    ------
    BackendError
        Then.
    """
    if share.device_id != device_id:
        raise BackendError(f"There is no device {share.device_id} on this node.", hint="List the devices.")
    if not _LEASE_ID.fullmatch(lease_id):
        raise BackendError(f"{lease_id!r} is not the id of a lease.")
    if not 1 <= share.compute_milli <= WHOLE_MILLI or share.memory_bytes < 1:
        raise BackendError(
            f"{share.compute_milli} thousandths with {share.memory_bytes} bytes is not a share of a device."
        )


def refuse_foreign(procfs: ProcFS, holder: ProcessMark) -> int:
    """Return the uid of a holder that lives and is ours to limit.

    Raises
    ------
    HolderGone
        If it ended, or its pid is another process now.
    BackendError
        If it is another user's.
    """
    status = procfs.status(holder.pid)
    if status is None or not procfs.alive(holder):
        raise HolderGone(f"Process {holder.pid} ended before it could be attached.")
    if os.geteuid() not in {0, status.uid}:
        raise BackendError(
            f"Process {holder.pid} belongs to uid {status.uid}, and the agent runs as uid {os.geteuid()}.",
            hint="Run the agent as that user, or as an administrator.",
        )
    return status.uid


def refuse_larger(undo: Undo, memory: TreeMemory, share: ShareOrder, holder: ProcessMark) -> None:
    """Refuse a tree that already uses more than the share.

    Raises
    ------
    HolderTooLarge
        Then; where the limit is RLIMIT_DATA, what it counts (VmData) is what is compared.
    """
    if undo.memory is MemoryRung.RLIMIT:
        for pid, size in memory.data_bytes.items():
            if size > share.memory_bytes:
                whose = f"Process {pid}" if pid == holder.pid else f"Process {pid}, a child of {holder.pid},"
                _refuse(f"{whose} already has {format_memory(size)} of data memory", size, share)
    used = memory.used_bytes
    if used is not None and used > share.memory_bytes:
        count = len(memory.data_bytes)
        whose = f"Process {holder.pid}" if count == 1 else f"The {count} processes of {holder.pid}"
        _refuse(f"{whose} already use{'s' if count == 1 else ''} {format_memory(used)}", used, share)


def _refuse(what: str, size: int, share: ShareOrder) -> None:
    least = -(-size // 2**20)
    raise HolderTooLarge(
        f"{what}, more than the share of {format_memory(share.memory_bytes)}.",
        hint=f"Restart the kernel, or request at least {least}MiB of memory.",
    )
