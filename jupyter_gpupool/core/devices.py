"""Devices and the arithmetic of what is free on them, in two dimensions.

Rule of this module: a missing reading is ``None``, never 0; unknown is not free.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DeviceKind(Enum):
    """What kind of accelerator a device is; a request names one or leaves it to the pool."""

    # members are single objects: that is a hash without a call
    __hash__ = object.__hash__

    #: The processor and main memory of a node.
    CPU = "cpu"
    #: An NVIDIA GPU, or a MIG instance of one.
    CUDA = "cuda"


class Health(Enum):
    """What the agent's indicators say about a device."""

    #: Nothing is wrong.
    HEALTHY = "healthy"
    #: Usable, but a person should look at it.
    DEGRADED = "degraded"
    #: Not usable; takes no new leases until it is healthy again.
    FAILED = "failed"


class Withheld(Enum):
    """Why a device is not offered to new requests."""

    #: Its agent is not connected.
    AGENT_AWAY = "agent_away"
    #: An administrator drains its node.
    DRAINED = "drained"
    #: A lease on it should have ended, but its limits were not confirmed gone in time.
    QUARANTINED = "quarantined"
    #: Its agent came back with holders whose leases had ended; they are being detached.
    FENCING = "fencing"
    #: Its health is FAILED.
    FAILED = "failed"
    #: Another pool on the machine manages it.
    TAKEN = "taken"


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One schedulable accelerator, as its agent reported it.

    Attributes
    ----------
    id : str
        Stable, globally unique identity (a UUID for GPUs, never an ordinal).
    node_id : str
        The node it is part of.
    name : str
        Short name, unique in its node, that people type (``cpu``, ``cuda0``).
    kind : DeviceKind
        What it is.
    model : str
        What the vendor calls it.
    memory_bytes : int
        Memory that can be leased, bytes.
    compute_units : int
        Cores of a CPU, streaming multiprocessors of a GPU.
    emulated : bool
        True when there is no such hardware.
    health : Health
        What its indicators say.
    taken_by : str
        Who else manages it ("ann's pool (pid 4711)"); empty when it is ours.
    unmanaged_bytes : int or None
        Memory used by processes without a lease, bytes; None when unknown.
    health_reason : str
        What is wrong with it, one sentence; empty when it is healthy.
    parent_id : str
        The GPU that this is an instance of (MIG); empty for a whole device.
    parent_milli : int
        Which part of that GPU's compute it is, thousandths; 1000 for a whole device, 0 where the driver
        does not say.
    whole_only : bool
        True when it is granted whole or not at all (a MIG instance).
    one_owner : bool
        True when leases of only one owner can be on it at a time (MPS serves one user at a time).
    most_leases : int or None
        How many leases it can carry at once; None for any number.
    """

    id: str
    node_id: str
    name: str
    kind: DeviceKind
    model: str
    memory_bytes: int
    compute_units: int
    emulated: bool = False
    health: Health = Health.HEALTHY
    taken_by: str = ""
    unmanaged_bytes: int | None = None
    health_reason: str = ""
    parent_id: str = ""
    parent_milli: int = 1000
    whole_only: bool = False
    one_owner: bool = False
    most_leases: int | None = None

    @property
    def leasable_bytes(self) -> int:
        """Its memory less what processes without a lease use, bytes; negative where they use more."""
        return self.memory_bytes - (self.unmanaged_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Free:
    """What is left of one device.

    Attributes
    ----------
    compute_milli : int
        Thousandths of the device's compute.
    memory_bytes : int
        Bytes of its memory; never negative.
    """

    compute_milli: int
    memory_bytes: int
