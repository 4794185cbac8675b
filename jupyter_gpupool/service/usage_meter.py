"""How much of what leases hold is really used: summed from what agents measure, and written down by the hour.

Rules of this module: a gap between two samples is not known, neither used nor unused; what could not be
written is kept and written with the next.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from jupyter_gpupool.cluster.journal import JournalUnavailable
from jupyter_gpupool.cluster.journal_spans import HOUR_MS, KnownDevice, MeasuredHour, isolation_of
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.messages import LeaseSample, SampleReport
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.journaling import JournalThread

_log = logging.getLogger(__name__)

#: Two samples of a lease that are further apart say nothing of the time between them, milliseconds.
GAP_MS = 60_000
#: Pause between two writings, seconds.
WRITE_SECONDS = 60.0


class UsageMeter:
    """Sums up what is measured.

    Parameters
    ----------
    host : PoolHost
        The leases and devices.
    clock : PoolClock
        Both clocks.
    """

    def __init__(self, host: PoolHost, clock: PoolClock) -> None:
        self._host = host
        self._clock = clock
        #: When a lease was last measured on a node.
        self._seen_ms: dict[tuple[str, str], int] = {}
        self._hours: dict[tuple[str, int], MeasuredHour] = {}
        self._known: dict[str, KnownDevice] = {}

    def sampled(self, report: SampleReport, node_id: str) -> None:
        """Take what the agent of a node has measured of what is on it."""
        now = self._clock.read()
        for sample in report.leases:
            lease = self._host.leases.get(sample.lease_id)
            if lease is None or lease.state is not LeaseState.ACTIVE or not lease.shares:
                self._seen_ms.pop((sample.lease_id, node_id), None)
            elif sample.utilization_percent is not None:
                self._add(lease, sample, node_id, now.now_ms, now.wall_ms)

    def _add(self, lease: Lease, sample: LeaseSample, node_id: str, now_ms: int, wall_ms: int) -> None:
        seen = (lease.id, node_id)
        before, self._seen_ms[seen] = self._seen_ms.get(seen), now_ms
        shares = [it for it in lease.shares if self._is_on(it.device_id, node_id)]
        if before is None or not 0 < now_ms - before <= GAP_MS or not shares:
            return
        lasted, key = now_ms - before, (lease.id, wall_ms // HOUR_MS)
        held = sum(share.compute_milli for share in shares)
        found = self._hours.get(key) or MeasuredHour(
            lease_id=lease.id,
            hour=key[1],
            owner=lease.owner,
            device_id=shares[0].device_id,
            isolation=isolation_of(lease),
            busy_milli_ms=0,
            known_milli_ms=0,
        )
        busy = min(round(10 * (sample.utilization_percent or 0.0)), held)
        self._hours[key] = replace(
            found,
            busy_milli_ms=found.busy_milli_ms + busy * lasted,
            known_milli_ms=found.known_milli_ms + held * lasted,
        )

    def _is_on(self, device_id: str, node_id: str) -> bool:
        device = self._host.pool.device(device_id)
        return device is not None and device.node_id == node_id

    def devices(self) -> dict[str, KnownDevice]:
        """Return what the devices are that are there now."""
        return {
            it.id: KnownDevice(id=it.id, kind=it.kind.value, model=it.model)
            for it in self._host.pool.devices.values()
        }

    def pending(self) -> list[MeasuredHour]:
        """Return what is not written down yet."""
        return list(self._hours.values())

    async def write(self, journal: JournalThread) -> None:
        """Write down what is new; what cannot be written is kept."""
        hours, self._hours = self._hours, {}
        now = self.devices()
        devices = [it for it in now.values() if self._known.get(it.id) != it]
        self._seen_ms = {key: at for key, at in self._seen_ms.items() if key[0] in self._host.leases}
        if not hours and not devices:
            return
        try:
            await journal.read(lambda it: it.spent.add(list(hours.values()), devices))
            self._known.update({it.id: it for it in devices})
        except JournalUnavailable as error:
            _log.warning("What was measured could not be written down: %s", error)
            for key, kept in hours.items():
                more = self._hours.get(key)
                self._hours[key] = kept if more is None else _together(kept, more)

    async def keep(self, journal: JournalThread) -> None:
        """Write it down again and again, and at the end; ends when it is cancelled."""
        try:
            while True:
                await self.write(journal)
                await asyncio.sleep(WRITE_SECONDS)
        finally:
            await self.write(journal)


def _together(one: MeasuredHour, other: MeasuredHour) -> MeasuredHour:
    return replace(
        one,
        busy_milli_ms=one.busy_milli_ms + other.busy_milli_ms,
        known_milli_ms=one.known_milli_ms + other.known_milli_ms,
    )
