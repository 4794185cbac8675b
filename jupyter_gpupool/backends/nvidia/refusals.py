"""What the backend of GPUs refuses, and how it says so.

Rule of this module: a refusal names the device, what was found, and the next step.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_gpupool.backends.base import BackendError, HolderTooLarge
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Use
from jupyter_gpupool.backends.rules import SharingRule
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_memory
from jupyter_gpupool.protocol.frameworks import version
from jupyter_gpupool.protocol.messages import ShareOrder


def refuse_frameworks(gpu: GPU, rule: SharingRule, frameworks: Mapping[str, str]) -> None:
    """Refuse a kernel that has none of the frameworks that may time-slice a model.

    Raises
    ------
    BackendError
        Then.
    """
    allowed = rule.frameworks
    if not allowed:
        return
    if any(name in frameworks and version(frameworks[name]) >= version(at) for name, at in allowed):
        return
    wanted = " or ".join(f"{name} {at} or newer" for name, at in allowed)
    have = ", ".join(f"{name} {frameworks[name]}" for name, _ in allowed if name in frameworks) or "none"
    raise BackendError(
        f"{gpu.name} ({gpu.model}) is time-sliced, which an administrator lets only kernels with {wanted} do;"
        f" this one has {have}.",
        hint="Install that in the kernel's environment, or request the whole device.",
    )


def refuse_larger(use: Use, share: ShareOrder, gpu: GPU) -> None:
    """Refuse a tree that already uses more of the device than the share; a whole device is never too small.

    Raises
    ------
    HolderTooLarge
        Then.
    """
    used = use.memory_bytes
    if share.compute_milli < WHOLE_MILLI and used is not None and used > share.memory_bytes:
        raise HolderTooLarge(
            f"Its processes already use {format_memory(used)} of {gpu.name}, more than the share of"
            f" {format_memory(share.memory_bytes)}.",
            hint=f"Free memory, restart the kernel, or request at least {-(-used // 2**20)}MiB of memory.",
        )


def refuse_part(gpu: GPU, share: ShareOrder, *, whole_only: bool) -> None:
    """Refuse to make a part of what is leased whole.

    Raises
    ------
    BackendError
        Then.
    """
    if whole_only and share.compute_milli < WHOLE_MILLI:
        raise BackendError(
            f"{gpu.name} is leased whole or not at all.", hint="Release it and request another device."
        )
