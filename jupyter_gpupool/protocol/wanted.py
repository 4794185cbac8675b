"""What a kernelspec or a notebook says of the share that its kernels run with.

Rule of this module: read once for each start, and refused in words: a person sees them when the kernel
starts.

In ``kernel.json``, and in the metadata of a notebook without what is about the provisioner::

"metadata": { "kernel_provisioner": {"provisioner_name": "gpupool-node-provisioner"}, "gpupool": {"share":
0.25, "memory": "16GiB", "kind": "cuda", "wait": "10m"} }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.core.shares import format_compute, parse_compute, parse_duration, parse_memory
from jupyter_gpupool.protocol.documents import LeaseRequest
from jupyter_gpupool.protocol.notebook_file import METADATA

#: For how long a kernel's start waits for its share, unless its kernelspec says otherwise, seconds.
WAIT_SECONDS = 600.0
_WHOSE = {"kernelspec": "its kernels run", "notebook": "its kernel runs"}
_WRITERS = {
    "kernelspec": "jupyter gpupool kernelspec install",
    "notebook": "jupyter gpupool notebook set-share",
}
_FIELDS = ("share", "memory", "kind", "device", "model", "priority", "wait", "for")

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A share that a kernel runs with.

    Attributes
    ----------
    request : LeaseRequest
        For the pool.
    words : str
        The same for a person: ``0.25 of a device``.
    """

    request: LeaseRequest
    words: str


def read_wanted(metadata: Mapping[str, Any], of: str = "kernelspec") -> Wanted:
    """Read what a kernelspec's metadata say, or a notebook's.

    Parameters
    ----------
    metadata : mapping
        All of them.
    of : str
        Whose they are, for people: "kernelspec" or "notebook".

    Raises
    ------
    InvalidValue
        If it names no share, or something that cannot be read.
    """
    told = metadata.get(METADATA)
    if not isinstance(told, Mapping) or "share" not in told:
        raise InvalidValue(
            f"This {of} does not say which share {_WHOSE[of]} with.",
            hint=f"`{_WRITERS[of]}` writes one that does.",
        )
    if unknown := [name for name in told if name not in _FIELDS]:
        raise InvalidValue(
            f"“{str(unknown[0])[:40]}” in the metadata of this {of} is not known.",
            hint=f"Known are {', '.join(_FIELDS)}.",
        )
    return _wanted(told, of)


def _wanted(told: Mapping[str, Any], of: str) -> Wanted:
    milli = parse_compute(told["share"])
    request = LeaseRequest(
        compute_milli=milli,
        memory_bytes=parse_memory(told["memory"]) if "memory" in told else None,
        kind=_one_of(DeviceKind, told["kind"], of) if "kind" in told else None,
        device=str(told.get("device", "")),
        model=str(told.get("model", "")),
        priority=_one_of(Priority, told.get("priority", Priority.NORMAL.value), of),
        wait_seconds=parse_duration(told["wait"]) if "wait" in told else WAIT_SECONDS,
        hold_seconds=parse_duration(told["for"]) if "for" in told else None,
    )
    kind = request.kind.value.upper() + " " if request.kind else ""
    return Wanted(request=request, words=f"{format_compute(milli)} of a {kind}device")


def _one_of(kind: type[E], value: object, of: str) -> E:
    for member in kind:
        if member.value == value:
            return member
    raise InvalidValue(
        f"“{str(value)[:40]}” in the metadata of this {of} is not known.",
        hint=f"Give one of {', '.join(str(member.value) for member in kind)}.",
    )
