"""Moves of kernels to other nodes, as their owners ask for them.

Rules of this module: only what the pool itself has started can be started elsewhere; whose lease it is not,
is told that there is none.
"""

from __future__ import annotations

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import IllegalTransition
from jupyter_gpupool.core.events import MoveRequested
from jupyter_gpupool.core.leases import LeaseState, Want
from jupyter_gpupool.core.placing import Choice
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import MovedDoc, MoveRequest
from jupyter_gpupool.service import validate
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.ownership import own_lease
from jupyter_gpupool.service.processes import Processes


class Mover:
    """Takes the requests of principals.

    Parameters
    ----------
    host, processes, clock
        The parts of the service that moves concern.
    """

    def __init__(self, host: PoolHost, processes: Processes, clock: PoolClock) -> None:
        self._host = host
        self._processes = processes
        self._clock = clock

    async def move(self, who: Principal, lease_id: str, body: bytes) -> MovedDoc:
        """Have a kernel's lease go on on another node, or say where that would be.

        Raises
        ------
        IllegalTransition
            If its holder is not a process that the pool has started, or it cannot move.
        DoesNotFitNow
            If no other node has room.
        """
        wanted = validate.move_request(decode(body, MoveRequest))
        await self._host.settled()
        lease = await own_lease(self._host, who, lease_id)
        if lease.state is LeaseState.ACTIVE and not self._processes.any_of(lease_id):
            raise IllegalTransition(
                f"Lease {lease_id} cannot move: its kernel was not started by the pool.",
                hint="Kernels that `jupyter gpupool kernelspec install` adds to the kernel picker can.",
            )
        now, want = self._clock.read(), _want(wanted)
        if wanted.only_ask:
            choice = self._host.pool.place_elsewhere(lease_id, want, now.now_ms, now.wall_ms)
            return self._doc(lease_id, choice, moved=False)
        event = MoveRequested(now_ms=now.now_ms, wall_ms=now.wall_ms, lease_id=lease_id, want=want)
        await self._host.submit(event)
        lease = await own_lease(self._host, who, lease_id)
        kind = lease.want.kind or DeviceKind.CPU
        return self._doc(lease_id, Choice(lease.node_id, kind, lease.shares), moved=True)

    def _doc(self, lease_id: str, place: Choice, *, moved: bool) -> MovedDoc:
        pool = self._host.pool
        node = pool.nodes.get(place.node_id)
        devices = [(it.device_id, pool.device(it.device_id)) for it in place.shares]
        return MovedDoc(
            lease_id=lease_id,
            node_id=place.node_id,
            hostname=node.hostname if node is not None else place.node_id,
            devices=[device.name if device is not None else device_id for device_id, device in devices],
            compute_milli=place.shares[0].compute_milli,
            memory_bytes=sum(it.memory_bytes for it in place.shares),
            kind=place.kind,
            moved=moved,
        )


def _want(wanted: MoveRequest) -> Want:
    return Want(
        compute_milli=wanted.compute_milli,
        memory_bytes=wanted.memory_bytes,
        kind=wanted.kind,
        device=wanted.device,
        host_cpu_milli=wanted.host_cpu_milli,
        host_memory_bytes=wanted.host_memory_bytes,
        model=wanted.model,
    )
