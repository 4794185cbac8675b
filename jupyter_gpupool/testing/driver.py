"""Plays the host of a pool, and its owners and agents, with a clock that a test moves.

Rule of this module: it makes events and writes down what the pool says; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict, TypeVar

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.effects import Effect, WriteDown
from jupyter_gpupool.core.errors import InvariantBroken
from jupyter_gpupool.core.leases import EndReason, Holder, Lease, LeaseState, Want
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.testing.builders import a_want, an_isolation
from jupyter_gpupool.testing.journal import MemoryJournal

#: Wall time of a driver's first event, milliseconds since the epoch (pool time starts at 0).
_WALL_START_MS = 1_700_000_000_000

_E = TypeVar("_E", bound=Effect)


class When(TypedDict):
    """The two times of an event."""

    now_ms: int
    wall_ms: int


class _About(TypedDict):
    """The process that a report is about."""

    lease_id: str
    generation: int


class PoolDriver:
    """Plays the host of a pool: makes events with its own clock, and writes down what the pool says.

    Parameters
    ----------
    devices : sequence of Device
        Devices whose nodes join at once; empty for a pool that knows no node.
    config : PoolConfig or None
        The pool's rules; the usual ones when None.

    Attributes
    ----------
    pool : Pool
        The pool.
    journal : MemoryJournal
        What was written down.
    now_ms : int
        Pool time of the next event.
    effects : list of Effect
        What the last event led to.
    drained : dict of str to Drain
        What was written down of nodes that are drained.
    """

    def __init__(self, devices: Sequence[Device] = (), *, config: PoolConfig | None = None) -> None:
        self.config = config or PoolConfig()
        self.pool = Pool(self.config)
        self.journal = MemoryJournal()
        self.now_ms = 0
        self.effects: list[Effect] = []
        self.drained: dict[str, Drain] = {}
        self._count = 0
        self._devices: dict[str, tuple[Device, ...]] = {}
        for device in devices:
            self._devices[device.node_id] = (*self._devices.get(device.node_id, ()), device)
        for node_id in self._devices:
            self.join(node_id)

    # --- host -----------------------------------------------------------------------------------

    @property
    def when(self) -> When:
        """The two times of an event that happens now."""
        return {"now_ms": self.now_ms, "wall_ms": _WALL_START_MS + self.now_ms}

    def handle(self, event: ev.Event) -> list[Effect]:
        """Give an event to the pool, and write down what it says."""
        self.effects = self.pool.handle(event)
        self.journal.commit(it for it in self.effects if isinstance(it, WriteDown))
        return self.effects

    def told(self, kind: type[_E]) -> list[_E]:
        """List the effects of one kind that the last event led to."""
        return [it for it in self.effects if isinstance(it, kind)]

    def check(self) -> None:
        """Check everything that must always hold."""
        self.pool.check_invariants()
        self.journal.check_usage()
        if {it.id: it for it in self.journal.live_leases()} != dict(self.pool.leases):
            raise InvariantBroken("What was written down is not what the pool has.")

    def advance(self, ms: int) -> None:
        """Let time pass, and tell the pool at each deadline, as a host does."""
        until_ms = self.now_ms + ms
        while (due := self.pool.next_deadline_ms()) is not None and due <= until_ms:
            self.now_ms = max(self.now_ms, due)
            self.handle(ev.TimePassed(**self.when))
        self.now_ms = until_ms

    def restart(self, *, down_ms: int = 0) -> None:
        """End the pool as by a kill, and make it anew from what was written down."""
        self.now_ms += down_ms
        self.pool = Pool(
            self.config,
            leases=self.journal.live_leases(),
            drained=self.drained.values(),
            now_ms=self.now_ms,
        )

    # --- administrators -------------------------------------------------------------------------

    def drain(self, node_id: str = "node-1", message: str = "", *, until_ms: int | None = None) -> None:
        """Take no new leases on a node; with ``until_ms`` (pool time), end those that are there then."""
        drain = self.drained[node_id] = Drain(node_id=node_id, message=message, until_ms=until_ms)
        self.handle(ev.NodeDrained(drain=drain, **self.when))

    def undrain(self, node_id: str = "node-1") -> None:
        """Take leases on a node again."""
        self.drained.pop(node_id, None)
        self.handle(ev.NodeUndrained(node_id=node_id, **self.when))

    # --- owners ---------------------------------------------------------------------------------

    def request(
        self,
        want: Want | int = 250,
        *,
        owner: str = "ann",
        key: str = "",
        restartable: bool = False,
        wait_ms: int | None = None,
        hold_ms: int | None = None,
    ) -> str:
        """Ask for a share, each time for another holder unless ``key`` is given; return the lease's id."""
        self._count += 1
        lease_id = f"lease_{self._count:06d}"
        event = ev.LeaseRequested(
            lease_id=lease_id,
            owner=owner,
            holder=Holder(key=key or f"holder-{self._count}", restartable=restartable),
            want=want if isinstance(want, Want) else a_want(want),
            wait_ms=wait_ms,
            hold_ms=hold_ms,
            **self.when,
        )
        self.handle(event)
        return lease_id

    def hold(self, want: Want | int = 250, **details: object) -> str:
        """Ask for a share that is free, and attach its holder; return the lease's id."""
        lease_id = self.request(want, **details)  # type: ignore[arg-type]
        self.attach(lease_id)
        return lease_id

    def release(self, lease_id: str, reason: EndReason = EndReason.RELEASED) -> None:
        """Ask for the end of a lease."""
        self.handle(ev.ReleaseRequested(lease_id=lease_id, reason=reason, **self.when))

    def end(self, lease_id: str) -> None:
        """Release a lease, and let its agent confirm."""
        self.release(lease_id)
        if lease_id in self.pool.leases:
            self.detach(lease_id)

    def resize(self, lease_id: str, compute_milli: int, memory_bytes: int | None = None) -> None:
        """Ask for another size."""
        self.handle(
            ev.ResizeRequested(
                lease_id=lease_id, compute_milli=compute_milli, memory_bytes=memory_bytes, **self.when
            )
        )

    def move(self, lease_id: str, want: Want | int) -> None:
        """Ask for a lease to go on with something else on another node."""
        want = want if isinstance(want, Want) else a_want(want)
        self.handle(ev.MoveRequested(lease_id=lease_id, want=want, **self.when))

    def lease(self, lease_id: str) -> Lease:
        """Return the last value of a lease, live or ended."""
        return self.journal.rows[lease_id]

    def state(self, lease_id: str) -> LeaseState:
        """Return the state of a lease, live or ended."""
        return self.lease(lease_id).state

    # --- agents ---------------------------------------------------------------------------------

    def join(
        self,
        node_id: str = "node-1",
        devices: Sequence[Device] | None = None,
        holders: Iterable[ev.HolderSeen] = (),
    ) -> None:
        """Let a node's agent connect, with its usual devices unless others are given."""
        self._devices[node_id] = tuple(devices) if devices is not None else self._devices.get(node_id, ())
        self.handle(
            ev.AgentJoined(
                node_id=node_id,
                hostname=f"{node_id}.test",
                devices=self._devices[node_id],
                holders=tuple(holders),
                **self.when,
            )
        )

    def leave(self, node_id: str = "node-1") -> None:
        """Lose the connection to a node's agent."""
        self.handle(ev.AgentLeft(node_id=node_id, **self.when))

    def sweep(
        self, holders: Iterable[ev.HolderSeen] = (), *, node_id: str = "node-1", asked_ms: int | None = None
    ) -> None:
        """Let an agent list all of its holders."""
        asked_ms = self.now_ms if asked_ms is None else asked_ms
        self.handle(
            ev.HoldersReported(node_id=node_id, holders=tuple(holders), asked_ms=asked_ms, **self.when)
        )

    def report(self, change: Callable[[Device], Device], node_id: str = "node-1") -> None:
        """Let an agent report its devices anew, each changed as given."""
        self._devices[node_id] = tuple(change(it) for it in self._devices[node_id])
        self.handle(ev.DevicesReported(node_id=node_id, devices=self._devices[node_id], **self.when))

    def seen(self, lease_id: str) -> ev.HolderSeen:
        """Return the holder of a lease as its agent lists it."""
        lease = self.lease(lease_id)
        return ev.HolderSeen(lease_id=lease_id, generation=lease.generation, pid=lease.pid or _pid(lease))

    def attach(self, lease_id: str, *, generation: int | None = None) -> None:
        """Let the agent attach the holder."""
        lease = self.lease(lease_id)
        self.handle(
            ev.HolderAttached(
                lease_id=lease_id,
                generation=lease.generation if generation is None else generation,
                pid=_pid(lease),
                isolation=(an_isolation(),),
                node_id=lease.node_id,
                **self.when,
            )
        )

    def refuse_attach(self, lease_id: str, detail: str = "uses more than its share") -> None:
        """Let the agent find that it cannot put the holder under the limits."""
        self.handle(ev.AttachRefused(detail=detail, **self._about(lease_id), **self.when))

    def apply(self, lease_id: str) -> None:
        """Let the agent put the limits of a resize in force."""
        isolation = (an_isolation(limit="resized"),)
        self.handle(ev.LimitsApplied(isolation=isolation, **self._about(lease_id), **self.when))

    def refuse_limits(self, lease_id: str, detail: str = "uses more than that") -> None:
        """Let the agent find that it cannot put the limits of a resize in force."""
        self.handle(ev.LimitsRefused(detail=detail, **self._about(lease_id), **self.when))

    def exit(self, lease_id: str) -> None:
        """Let the holder's process end."""
        self.handle(ev.HolderExited(**self._about(lease_id), **self.when))

    def detach(self, lease_id: str) -> None:
        """Let the agent, or those of all of its nodes, confirm that nothing of a lease is left."""
        about = self._about(lease_id)
        for node_id in self.pool.nodes_of(self.lease(lease_id)):
            self.handle(ev.HolderDetached(node_id=node_id, **about, **self.when))

    def _about(self, lease_id: str) -> _About:
        return {"lease_id": lease_id, "generation": self.lease(lease_id).generation}


def _pid(lease: Lease) -> int:
    """Make a process id up, another one for each process of each lease."""
    return 1000 + int(lease.id.rpartition("_")[2]) * 100 + lease.generation
