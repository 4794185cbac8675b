"""Telemetry: looking at holders and devices, and telling the pool when something moved.

Rule of this module: often while somebody holds something, seldom otherwise; nothing is sent that nobody would
see.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from jupyter_gpupool.cluster.desk import HolderDesk
from jupyter_gpupool.cluster.hands import Hands
from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.messages import (
    DeviceSample,
    DevicesReport,
    LeaseSample,
    Report,
    SampleReport,
)

logger = logging.getLogger(__name__)

#: A sample is sent at least this often while there are holders, seconds.
TELL_SECONDS = 5.0
#: Without holders: how often devices are sampled, seconds.
IDLE_SECONDS = 10.0
#: How often devices are discovered anew, and locks of others tried again, seconds.
REFRESH_SECONDS = 5.0
#: Samples that carry many readings are told at most this often, unless a holder came or went, seconds.
LEAST_SECONDS = 1.0
#: What moves less is not worth a message: percent, bytes.
_PERCENT, _BYTES = 2.0, 16 * 2**20


class Sampler:
    """Samples a node until cancelled.

    Parameters
    ----------
    desk : HolderDesk
        The holders.
    inventory : Inventory
        The devices.
    hands : Hands
        The thread for blocking calls.
    report : callable
        Tells the pool.
    seconds : float
        Pause between two looks while there are holders.
    """

    def __init__(
        self,
        desk: HolderDesk,
        inventory: Inventory,
        hands: Hands,
        report: Callable[[Report], None],
        *,
        seconds: float = 1.0,
    ) -> None:
        self._desk = desk
        self._inventory = inventory
        self._hands = hands
        self._report = report
        self._seconds = seconds
        self._told: SampleReport | None = None
        self._told_at = 0.0
        self._refreshed_at = time.monotonic()

    async def run(self) -> None:
        """Look, tell, wait."""
        while True:
            await self._look()
            await self._pause()

    def tell_all(self) -> None:
        """Make the next look tell everything, as a service that has just connected knows nothing."""
        self._told = None
        self._desk.changed.set()

    async def _look(self) -> None:
        if time.monotonic() - self._refreshed_at >= self._refresh_seconds():
            self._refreshed_at = time.monotonic()
            if await self._hands.do(self._inventory.refresh):
                self._report(DevicesReport(devices=list(self._inventory.devices)))
            await self._hands.do(self._inventory.prove)
        leases = await self._desk.look()
        attachments = [attachment for record in self._desk.records for attachment in record.attachments]
        devices = await self._hands.do(self._inventory.sample, attachments)
        sample = SampleReport(devices=devices, leases=leases)
        if worth_telling(self._told, sample, time.monotonic() - self._told_at):
            self._told, self._told_at = sample, time.monotonic()
            self._report(sample)

    def _refresh_seconds(self) -> float:
        """Return how often to look for devices: real ones may begin to fail, and that cannot wait."""
        gpus = any(it.kind is not DeviceKind.CPU and not it.emulated for it in self._inventory.devices)
        return LEAST_SECONDS if gpus else REFRESH_SECONDS

    async def _pause(self) -> None:
        """Wait; a holder that comes or goes ends the wait."""
        seconds = IDLE_SECONDS
        if len(self._desk):
            seconds = self._seconds
        elif any(device.taken_by for device in self._inventory.devices):
            seconds = REFRESH_SECONDS
        self._desk.changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._desk.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(min(self._seconds, 0.2))


def worth_telling(told: SampleReport | None, sample: SampleReport, passed_seconds: float) -> bool:
    """Tell whether the pool should hear of a sample; the readings of a GPU are many, and ride along.

    Parameters
    ----------
    told : SampleReport or None
        What it heard last; None for nothing.
    sample : SampleReport
        What was measured now.
    passed_seconds : float
        Since it was told.
    """
    if told is None or _ids(told) != _ids(sample) or passed_seconds >= TELL_SECONDS:
        return True
    if passed_seconds < LEAST_SECONDS and any(device.metrics for device in sample.devices):
        return False
    return _noticeable(told, sample)


def _ids(sample: SampleReport) -> tuple[set[str], set[str]]:
    """Return what a sample is about."""
    return {lease.lease_id for lease in sample.leases}, {device.device_id for device in sample.devices}


def _noticeable(old: SampleReport, new: SampleReport) -> bool:
    """Tell whether a person would see the difference between two samples of the same leases and devices."""
    leases = {sample.lease_id: sample for sample in old.leases}
    devices = {sample.device_id: sample for sample in old.devices}
    return any(_lease_moved(leases[sample.lease_id], sample) for sample in new.leases) or any(
        _device_moved(devices[sample.device_id], sample) for sample in new.devices
    )


def _lease_moved(old: LeaseSample, new: LeaseSample) -> bool:
    return (
        old.processes != new.processes
        or old.notices != new.notices
        or _moved(old.memory_used_bytes, new.memory_used_bytes, _BYTES)
        or _moved(old.host_memory_bytes, new.host_memory_bytes, _BYTES)
        or _moved(old.utilization_percent, new.utilization_percent, _PERCENT)
    )


def _device_moved(old: DeviceSample, new: DeviceSample) -> bool:
    if _moved(old.unmanaged_bytes, new.unmanaged_bytes, _BYTES * 4) or old.missing != new.missing:
        return True
    if [(it.pid, it.user) for it in old.unmanaged] != [(it.pid, it.user) for it in new.unmanaged]:
        return True
    before, after = (msgspec.structs.asdict(sample.readings) for sample in (old, new))
    return any(
        _moved(before[name], after[name], _BYTES if name.endswith("_bytes") else _PERCENT) for name in after
    )


def _moved(old: float | None, new: float | None, threshold: float) -> bool:
    """Compare two readings; one that appears or disappears has moved."""
    if old is None or new is None:
        return old is not new
    return abs(old - new) > threshold
