"""A pool with agents that really have holders, lose reports, and obey orders late.

Rule of this module: what agents have is kept apart from what the pool believes, so that both can be compared.
"""

from __future__ import annotations

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import ApplyLimits, Detach, Effect, PrepareAttach
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import HOLDING, Lease
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_mig_instance

#: Lease id and generation: one process for the pool.
Process = tuple[str, int]

DEVICES = (
    a_device("cpu", memory_bytes=16 * GIB),
    a_device("cuda0", memory_bytes=40 * GIB),
    a_device("cpu", node_id="node-2", memory_bytes=64 * GIB, compute_units=12),
    a_device("cuda0", node_id="node-2", memory_bytes=80 * GIB),
    a_device("cuda1", node_id="node-2", memory_bytes=80 * GIB, kind=DeviceKind.CUDA),
    a_device("cuda2", node_id="node-2", memory_bytes=40 * GIB, one_owner=True, most_leases=3),
    a_mig_instance("cuda3-mig0", 2, node_id="node-2", memory_bytes=20 * GIB),
    a_mig_instance("cuda3-mig1", 3, node_id="node-2", memory_bytes=40 * GIB),
)


class Agent:
    """What one node's agent has, and what it has been told and not done yet."""

    def __init__(self) -> None:
        self.connected = True
        self.prepared: set[Process] = set()
        self.holders: dict[Process, int] = {}
        self.orders: list[Detach | ApplyLimits] = []

    @property
    def away(self) -> bool:
        return not self.connected

    def seen(self) -> list[ev.HolderSeen]:
        return [
            ev.HolderSeen(lease_id=lease_id, generation=generation, pid=pid)
            for (lease_id, generation), pid in sorted(self.holders.items())
        ]


class World(PoolDriver):
    """A pool of two nodes, and the truth about them."""

    def __init__(self) -> None:
        self.agents = {"node-1": Agent(), "node-2": Agent()}
        self.pids = 0
        self.granted: set[str] = set()
        super().__init__(DEVICES)

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        for effect in effects:
            if isinstance(effect, PrepareAttach | Detach | ApplyLimits):
                self.deliver(self.agents[effect.node_id], effect)
            if isinstance(effect, PrepareAttach):
                self._check_granted(effect.lease)
        return effects

    def _check_granted(self, lease: Lease) -> None:
        """See that a grant is as large as what was asked for, whole where nothing is divided, and allowed."""
        if lease.generation == 1 and lease.granted_ms == self.now_ms and lease.id not in self.granted:
            self.granted.add(lease.id)
            whole = self.pool.leases.get(lease.id, lease)
            assert self.drained.keys().isdisjoint(self.pool.nodes_of(whole)), "its node is drained"
        for share in lease.shares:
            device = self.pool.device(share.device_id)
            if device is None or lease.generation > 1:
                continue
            assert share.memory_bytes >= (lease.want.memory_bytes or 1), lease
            whole = share.compute_milli == WHOLE_MILLI and lease.want.compute_milli <= device.parent_milli
            assert whole if device.whole_only else share.compute_milli == lease.want.compute_milli, lease

    def deliver(self, agent: Agent, effect: PrepareAttach | Detach | ApplyLimits) -> None:
        """Hand an order to an agent; one that is away never gets it."""
        if not agent.connected:
            return
        if isinstance(effect, PrepareAttach):
            agent.prepared.add((effect.lease.id, effect.lease.generation))
        else:
            agent.orders.append(effect)

    def say(self, event: ev.Event) -> bool:
        """Let an agent or owner say something that may be refused; return whether it was taken."""
        try:
            self.handle(event)
        except GPUPoolError:
            return False
        return True

    def say_unwritten(self, event: ev.Event) -> None:
        """Let an event happen whose commit fails: the pool is made anew from what was written before."""
        try:
            self.pool.handle(event)
        except GPUPoolError:
            return
        self.pool = self.pool.rebuilt(self.journal.live_leases(), now_ms=self.now_ms)

    def obey(self, agent: Agent, order: Detach | ApplyLimits, *, well: bool) -> None:
        """Let an agent carry an order out, or fail with a resize."""
        agent.orders.remove(order)
        process = (order.lease_id, order.generation)
        about = {"lease_id": order.lease_id, "generation": order.generation, **self.when}
        if isinstance(order, Detach):
            agent.holders.pop(process, None)
            agent.prepared.discard(process)
            self.say(ev.HolderDetached(node_id=order.node_id, **about))
        elif well and process in agent.holders:
            self.say(ev.LimitsApplied(isolation=(), **about))
        else:
            self.say(ev.LimitsRefused(detail="", **about))

    def show_ticket(self, node_id: str, process: Process, *, heard: bool, well: bool) -> None:
        """Let a holder show its ticket to an agent; the report may be lost, and the attach may fail."""
        agent = self.agents[node_id]
        agent.prepared.discard(process)
        self.pids += 1
        if well:
            agent.holders[process] = self.pids
        if not heard or agent.away:
            return
        about = {"lease_id": process[0], "generation": process[1], **self.when}
        if well:
            self.say(ev.HolderAttached(pid=self.pids, isolation=(), node_id=node_id, **about))
        else:
            self.say(ev.AttachRefused(detail="too large", node_id=node_id, **about))

    def join_part(self, node_id: str, lease_id: str, *, heard: bool) -> None:
        """Let a process join a lease on another node than its holder's; the report may be lost."""
        agent, process = self.agents[node_id], (lease_id, self.lease(lease_id).generation)
        if process in agent.holders:
            return
        self.pids += 1
        agent.holders[process] = self.pids
        if heard and not agent.away:
            about = {"lease_id": process[0], "generation": process[1], **self.when}
            self.say(ev.HolderAttached(pid=self.pids, isolation=(), node_id=node_id, **about))

    def rejoin(self, node_id: str) -> None:
        """Let an agent connect, with the holders it has; tickets of before are good for nothing then."""
        agent = self.agents[node_id]
        agent.connected = True
        agent.orders.clear()
        agent.prepared.clear()
        self.join(node_id, holders=agent.seen())

    def lose(self, node_id: str) -> None:
        """Cut the connection to an agent; what it was told and has not done is lost."""
        agent = self.agents[node_id]
        agent.connected = False
        agent.orders.clear()
        self.leave(node_id)

    def crash(self, down_ms: int) -> None:
        """Kill the pool, and make it anew from the journal; all agents must join again."""
        for agent in self.agents.values():
            agent.connected = False
            agent.orders.clear()
        self.restart(down_ms=down_ms)

    def check(self) -> None:
        """Check the pool against itself, against the journal, and against the truth."""
        super().check()
        self._check_truth()
        self._check_rebuilt()

    def _check_truth(self) -> None:
        """See that no device is offered where a process has a share that the ledger does not count."""
        for node_id, agent in self.agents.items():
            offered = [
                it.id
                for it in self.pool.devices.values()
                if it.node_id == node_id and not self.pool.withheld(it.id)
            ]
            for lease_id, generation in agent.holders if offered else ():
                lease = self.pool.leases.get(lease_id)
                assert lease is not None, (
                    f"{lease_id} is over, its process is there, and {offered} are offered"
                )
                assert lease.state in HOLDING, lease
                if node_id not in self.pool.nodes_of(lease)[1:]:  # of a part, the shares stay counted
                    assert (lease.node_id, lease.generation) == (node_id, generation), lease

    def _check_rebuilt(self) -> None:
        """See that a pool made from the journal agrees with the one that wrote it."""
        live = self.journal.live_leases()
        again = self.pool.rebuilt(live, now_ms=self.now_ms)
        again.check_invariants()
        assert dict(again.leases) == dict(self.pool.leases)
        assert {it: again.free(it) for it in again.devices} == {
            it: self.pool.free(it) for it in self.pool.devices
        }
        assert [it.lease.id for it in again.queue()] == [it.lease.id for it in self.pool.queue()]
        dues = [it._ledger.deadlines.first(it.leases) for it in (again, self.pool)]
        assert dues[0] == dues[1]
        fresh = Pool(self.config, leases=live, drained=self.drained.values(), now_ms=self.now_ms)
        fresh.check_invariants()
        assert dict(fresh.leases) == dict(self.pool.leases)
