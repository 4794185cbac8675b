"""Which holders do nothing: what kernels say of their cells, together with what agents see on the devices.

Rules of this module: idle is no running cell *and* no activity on the device; what is not known of either is
not idle. The pool is told when that changes, never more often. Nothing of it is written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.events import ActivitySeen
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.messages import SampleReport
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost

#: A GPU that is busier than this is used, percent.
USED_PERCENT = 1.0
#: A holder that keeps more than so much of one core busy computes: an idle kernel needs a hundredth.
USED_CORES = 0.05


@dataclass(kw_only=True, slots=True)
class _Seen:
    """What is known of the process that holds one lease; pool times in milliseconds.

    Attributes
    ----------
    generation : int
        Which of the lease's processes.
    cell : bool or None
        Whether a cell runs; None when nobody says.
    cell_ms, device_ms : int or None
        Since when no cell has run, and since when the device is not used; None when it is, or unknown.
    used_on : set of str
        Nodes on which its devices are used now.
    told_ms : int or None
        Since when the pool believes it idle; None when it does not.
    """

    generation: int
    cell: bool | None = None
    cell_ms: int | None = None
    device_ms: int | None = None
    told_ms: int | None = None
    used_on: set[str] = field(default_factory=set)

    @property
    def since_ms(self) -> int | None:
        """Since when it is idle; None when it is not, or that is unknown."""
        if self.cell is not False or self.cell_ms is None or self.device_ms is None:
            return None
        return max(self.cell_ms, self.device_ms)


class Idleness:
    """What the holders of one pool do.

    Parameters
    ----------
    host : PoolHost
        The pool.
    clock : PoolClock
        Both clocks.
    """

    def __init__(self, host: PoolHost, clock: PoolClock) -> None:
        self._host = host
        self._clock = clock
        self._leases: dict[str, _Seen] = {}

    def told(self, lease: Lease, *, busy: bool, idle_ms: int) -> None:
        """Take what a holder says of its cells."""
        seen = self._seen(lease)
        seen.cell, seen.cell_ms = busy, None if busy else self._clock.now_ms() - idle_ms
        if self._made_up(lease):  # its readings say nothing of anybody
            seen.device_ms = seen.cell_ms
        self._tell(lease, seen)

    def sampled(self, report: SampleReport, node_id: str) -> None:
        """Take what an agent sees of the holders on its node."""
        whole = {it.device_id: it.readings.utilization_percent for it in report.devices}
        for sample in report.leases:
            lease = self._host.leases.get(sample.lease_id)
            if lease is None or lease.state is not LeaseState.ACTIVE or self._made_up(lease):
                continue
            seen = self._seen(lease)
            percent = sample.utilization_percent
            if percent is None:  # nobody uses a device that does nothing
                percent = _most(
                    [whole.get(it.id) for it in self._devices(lease) if it.node_id in ("", node_id)]
                )
            used = percent is None or percent > self._threshold(lease)
            if self._used_anywhere(lease, seen, node_id, used=used):
                seen.device_ms = None
            elif seen.device_ms is None:
                seen.device_ms = self._clock.now_ms()
            self._tell(lease, seen)
        self._forget()

    def _used_anywhere(self, lease: Lease, seen: _Seen, node_id: str, *, used: bool) -> bool:
        """Note whether a lease's devices on a node are used; tell whether those on any of its nodes are."""
        (seen.used_on.add if used else seen.used_on.discard)(node_id)
        if seen.used_on - {node_id}:  # who has left a node says nothing any more
            joined = (it.node_id for it in self._host.pool.joined(lease.id))
            seen.used_on &= {node_id, lease.node_id, *joined}
        return bool(seen.used_on)

    def idle_seconds(self, lease: Lease) -> float | None:
        """Return for how long a lease has been idle; 0 while it is not, None when that is unknown."""
        seen = self._leases.get(lease.id)
        if seen is None or seen.generation != lease.generation or lease.state is not LeaseState.ACTIVE:
            return None
        if seen.since_ms is not None:
            return max(0, self._clock.now_ms() - seen.since_ms) / 1000
        return 0.0 if seen.cell is not None else None

    def _seen(self, lease: Lease) -> _Seen:
        seen = self._leases.get(lease.id)
        if seen is None or seen.generation != lease.generation:
            seen = self._leases[lease.id] = _Seen(generation=lease.generation)
        return seen

    def _tell(self, lease: Lease, seen: _Seen) -> None:
        """Tell the pool, if it believes something else."""
        since_ms = seen.since_ms
        if since_ms == seen.told_ms:
            return
        seen.told_ms, now = since_ms, self._clock.read()
        idle_ms = 0 if since_ms is None else max(0, now.now_ms - since_ms)
        self._host.post(
            ActivitySeen(
                now_ms=now.now_ms,
                wall_ms=now.wall_ms,
                lease_id=lease.id,
                busy=since_ms is None,
                idle_ms=idle_ms,
            )
        )

    def _devices(self, lease: Lease) -> list[Device]:
        found = (self._host.pool.device(share.device_id) for share in lease.shares)
        return [device for device in found if device is not None]

    def _made_up(self, lease: Lease) -> bool:
        """Whether the readings of a lease's devices are made up."""
        return any(device.emulated for device in self._devices(lease))

    def _threshold(self, lease: Lease) -> float:
        """Return how busy a lease's devices are that are not used, percent."""
        cores = max((it.compute_units for it in self._devices(lease) if it.kind is DeviceKind.CPU), default=0)
        return 100 * USED_CORES / cores if cores else USED_PERCENT

    def _forget(self) -> None:
        if len(self._leases) > 2 * len(self._host.leases) + 64:
            self._leases = {key: it for key, it in self._leases.items() if key in self._host.leases}


def _most(readings: list[float | None]) -> float | None:
    """Return the largest reading; None when one is missing."""
    known = [it for it in readings if it is not None]
    return max(known) if known and len(known) == len(readings) else None
