"""The structures about usage and quotas; `documents` has their names, too.

Rules of this module: as in `documents`.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.core.devices import DeviceKind


class QuotaDoc(msgspec.Struct, kw_only=True):
    """One limit that an owner is under."""

    #: The group whose limit it is, for the sum over it; empty for the owner's own.
    group: str = ""
    #: ``compute`` (devices), ``memory`` (bytes), ``leases``, ``hours_per_week`` (device-hours), or beside
    #: shares of devices ``cpus`` (cores) and ``memory_host`` (bytes).
    what: str
    #: None where all kinds count together (leases, cpus, memory_host).
    kind: DeviceKind | None = None
    limit: float
    used: float
    left: float


class HeldDoc(msgspec.Struct, kw_only=True):
    """How an owner stands with one kind of device; devices may be fractions."""

    kind: DeviceKind
    held_devices: float
    #: What is theirs before any surplus is shared out.
    deserved_devices: float
    #: The same with their part of the surplus, as far as they ask for it now.
    fair_devices: float
    #: Device-hours that count when the queue is ordered: halved with each half-life.
    faded_hours: float
    #: Device-hours in this calendar week.
    week_hours: float


class UsageDoc(msgspec.Struct, kw_only=True):
    """What one owner has used: device-seconds (thousandths of a device x seconds / 1000)."""

    owner: str
    mine: bool
    device_seconds: float
    leases: int
    live_leases: int
    #: How the owner stands now, by kind of device.
    held: list[HeldDoc] = msgspec.field(default_factory=list)
    #: Every limit that counts for the owner, their own first.
    quotas: list[QuotaDoc] = msgspec.field(default_factory=list)


class UsageRowDoc(msgspec.Struct, kw_only=True):
    """One row of the report of usage; empty where the report is not split by that."""

    #: First day of the period; empty where it is not split into periods.
    period: str = ""
    owner: str = ""
    #: The group that the owner is in now.
    group: str = ""
    kind: str = ""
    model: str = ""
    #: The weakest that was in force for any resource: ``hard``, ``soft`` or ``none``.
    isolation: str = ""
    #: What was held: devices x seconds.
    held_device_seconds: float
    #: The part of it for which it is known how much was used.
    measured_device_seconds: float
    #: What of that was used: how busy the holders kept the devices, up to what they held.
    busy_device_seconds: float
    leases: int
    #: Price of what was held; None where the model has none.
    price: float | None = None
