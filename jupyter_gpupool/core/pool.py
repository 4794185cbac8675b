"""The pool: facts in, orders out.

Rule of this module: `Pool.handle` is the only thing that changes a pool. It either does all of what an event
means, or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from jupyter_gpupool.core import drains, expiry, fleet, hooks, moves, reclaim, reports, requests, resize
from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import Device, Free, Withheld
from jupyter_gpupool.core.drained import Drain, Drains
from jupyter_gpupool.core.effects import Effect
from jupyter_gpupool.core.estimates import Accuracy, HeldBefore
from jupyter_gpupool.core.explain import Explainer
from jupyter_gpupool.core.invariants import check_ledger
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.lifecycle import grant_what_fits, on_node
from jupyter_gpupool.core.nodes import Node
from jupyter_gpupool.core.parts import Joined
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.core.placing import Choice
from jupyter_gpupool.core.policies import order_policy, place_policy
from jupyter_gpupool.core.queue import Queue, QueueEntry
from jupyter_gpupool.core.quotas.usage import OwnerUsage
from jupyter_gpupool.core.reservations import Reservations
from jupyter_gpupool.core.turn import Turn
from jupyter_gpupool.core.why import Answerer, Proposal, Why


def _on_journal_failed(turn: Turn, event: ev.JournalFailed) -> None:
    turn.changed = turn.ledger.accepting
    turn.ledger.accepting = False


def _on_journal_recovered(turn: Turn, event: ev.JournalRecovered) -> None:
    turn.changed = not turn.ledger.accepting
    turn.ledger.accepting = True


#: Kind of event -> what handles it. A handler looks first, and changes afterwards.
_HANDLERS: dict[type[ev.Event], Callable[[Turn, Any], None]] = {
    ev.LeaseRequested: requests.on_lease_requested,
    ev.ReleaseRequested: reports.on_release_requested,
    ev.ResizeRequested: resize.on_resize_requested,
    ev.MoveRequested: moves.on_move_requested,
    ev.PinRequested: reclaim.on_pin_requested,
    ev.ActivitySeen: reclaim.on_activity_seen,
    ev.NodeDrained: drains.on_node_drained,
    ev.NodeUndrained: drains.on_node_undrained,
    ev.WaiterLost: reports.on_waiter_lost,
    ev.HolderAttached: reports.on_holder_attached,
    ev.AttachRefused: reports.on_attach_refused,
    ev.LimitsApplied: resize.on_limits_applied,
    ev.LimitsRefused: resize.on_limits_refused,
    ev.HolderExited: reports.on_holder_exited,
    ev.HolderDetached: reports.on_holder_detached,
    ev.AgentJoined: fleet.on_agent_joined,
    ev.HoldersReported: fleet.on_holders_reported,
    ev.DevicesReported: fleet.on_devices_reported,
    ev.AgentLeft: fleet.on_agent_left,
    ev.TimePassed: expiry.on_time_passed,
    ev.JournalFailed: _on_journal_failed,
    ev.JournalRecovered: _on_journal_recovered,
}


class Pool:
    """All devices under one pool service, and who has what of them.

    Parameters
    ----------
    config : PoolConfig
        The pool's rules.
    leases : iterable of Lease
        Live leases from the journal; their nodes count as disconnected until their agents join.
    usage : iterable of OwnerUsage
        What owners have used, from the journal (`Pool.usage`).
    demand : iterable of (Shape, int)
        What was asked for so far, from the journal (`Pool.demand_rows`): prices follow from it.
    holds : iterable of HeldBefore
        For how long leases were held that have ended, the latest last, from the journal.
    judged : str
        Whether the latest estimates were right, from the journal (`Pool.judged`).
    drained : iterable of Drain
        Nodes that take no new leases, from the journal.
    now_ms : int
        Pool time.
    """

    def __init__(
        self,
        config: PoolConfig,
        *,
        leases: Iterable[Lease] = (),
        usage: Iterable[OwnerUsage] = (),
        demand: Iterable[tuple[Shape, int]] = (),
        holds: Iterable[HeldBefore] = (),
        judged: str = "",
        drained: Iterable[Drain] = (),
        now_ms: int = 0,
    ) -> None:
        self._config = config
        self._ledger = Ledger(hooks.standings_book(config, usage))
        self._ledger.reservations = Reservations(config.reservations, config.quotas)
        self._ledger.drains = Drains(drained)
        for hold in holds:
            self._ledger.history.learn(hold)
        self._ledger.history.recall(judged)
        self._queue = Queue(self._ledger, order_policy(config.order), place_policy(config.place), config)
        self._queue.fields.restore(demand)
        self._explainer = Explainer(self._ledger, self._queue, config)
        self._answerer = Answerer(self._ledger, self._queue, config, self._explainer)
        self._revision = 0
        live = [it for it in leases if it.state is not LeaseState.ENDED]
        self._now_ms = max([now_ms, *(max(it.requested_ms, it.used_until_ms or 0) for it in live)])
        for lease in live:
            self._restore(lease)

    def _restore(self, lease: Lease) -> None:
        if lease.node_id:
            self._ledger.expect_node(lease.node_id, self._now_ms + self._config.agent_grace_ms)
        self._ledger.put(lease)

    def rebuilt(self, leases: Iterable[Lease], *, now_ms: int, config: PoolConfig | None = None) -> Pool:
        """Make the pool anew: what the journal says, on the nodes that are known.

        That is done after a failed commit, and to have other rules from now on.

        Nothing is granted until `JournalRecovered`. The next sweep (`HoldersReported`) brings the leases
        together with what the agents have.

        Parameters
        ----------
        leases : iterable of Lease
            Live leases from the journal.
        now_ms : int
            Pool time.
        config : PoolConfig, optional
            Other rules than before. What is held stays held, also where they would not grant it.
        """
        pool = Pool(
            config or self._config,
            leases=leases,
            usage=self._ledger.standings.rows(),
            demand=self.demand_rows(),
            drained=self._ledger.drains.all(),
            now_ms=max(now_ms, self._now_ms),
        )
        pool._ledger.adopt_nodes(self._ledger)
        pool._ledger.activity.adopt(self._ledger.activity)
        pool._ledger.history.adopt(self._ledger.history)
        pool._ledger.parts = self._ledger.parts
        pool._ledger.accepting = False
        pool._revision = self._revision + 1
        return pool

    def handle(self, event: ev.Event) -> list[Effect]:
        """Take a fact in.

        Parameters
        ----------
        event : Event
            What happened. A time before that of the last event counts as that time.

        Returns
        -------
        list of Effect
            What the host must do: all `WriteDown` effects first, in one transaction, then the others.

        Raises
        ------
        GPUPoolError
            If the event is refused or illegal; then nothing was changed.
        """
        now_ms = max(self._now_ms, event.now_ms)
        self._ledger.standings.tick(now_ms, event.wall_ms)
        self._ledger.reservations.tick(now_ms, event.wall_ms)
        turn = Turn(self._ledger, self._queue, self._config, now_ms, event.wall_ms)
        _HANDLERS[type(event)](turn, event)
        self._now_ms = now_ms
        if turn.changed:
            grant_what_fits(turn)
            drains.act(turn)
            hooks.reclaim(turn)
            self._revision += 1
        return turn.effects

    # --- what can be seen -----------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Grows by one with every event that changed anything that can be seen."""
        return self._revision

    @property
    def accepting(self) -> bool:
        """False while the journal cannot be written: nothing is granted then."""
        return self._ledger.accepting

    @property
    def leases(self) -> Mapping[str, Lease]:
        """Live leases by id; those that have ended are not among them."""
        return MappingProxyType(self._ledger.leases)

    @property
    def devices(self) -> Mapping[str, Device]:
        """Devices by id, as their agents last reported them."""
        return self._ledger.devices()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by id."""
        return {node_id: record.node for node_id, record in self._ledger.nodes.items()}

    def drain(self, node_id: str) -> Drain | None:
        """Return what an administrator said of a node that takes no new leases; None when it does."""
        return self._ledger.drains.of(node_id)

    @property
    def drains(self) -> list[Drain]:
        """What administrators said of nodes that take no new leases."""
        return self._ledger.drains.all()

    def leases_of(self, node_id: str) -> list[Lease]:
        """List the leases that have something on a node."""
        return self._ledger.touching(node_id) if node_id in self._ledger.nodes else []

    def device(self, device_id: str) -> Device | None:
        """Find a device; None when no agent has reported one of that id."""
        account = self._ledger.accounts.get(device_id)
        return account.device if account is not None else None

    def leases_on(self, device_id: str) -> tuple[str, ...]:
        """Ids of the leases that have a share of a device, in the order of their grants."""
        account = self._ledger.accounts.get(device_id)
        return tuple(account.leases) if account is not None else ()

    def nodes_of(self, lease: Lease) -> tuple[str, ...]:
        """Return the nodes that a lease has shares on, that of its holder first, as far as they are known."""
        return self._ledger.nodes_of(lease)

    def joined(self, lease_id: str) -> tuple[Joined, ...]:
        """List the processes that have joined a lease on other nodes than its holder's."""
        return self._ledger.parts.of(lease_id)

    def on_node(self, lease: Lease, node_id: str) -> Lease:
        """Return a lease with those of its shares alone that are on one of its nodes."""
        return on_node(self._ledger, lease, node_id)

    def free(self, device_id: str) -> Free:
        """Return what is left of a device; nothing of one that is unknown."""
        account = self._ledger.accounts.get(device_id)
        return account.free if account is not None else Free(compute_milli=0, memory_bytes=0)

    def withheld(self, device_id: str) -> Withheld | None:
        """Say why a device is not offered; None when it is."""
        account = self._ledger.accounts.get(device_id)
        return self._ledger.withheld(account) if account is not None else Withheld.AGENT_AWAY

    def withheld_reason(self, device_id: str) -> str:
        """Say in words why a device is not offered; empty when it is."""
        return self._explainer.withheld(device_id)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._ledger.waitlist)

    def queue(self, now_ms: int | None = None) -> list[QueueEntry]:
        """List the requests that wait, first to be considered first."""
        return self._explainer.queue(self._seen(now_ms), self._revision)

    def reason(self, lease_id: str, now_ms: int | None = None) -> str:
        """Say in a sentence what a live lease waits for, or what happens to it next.

        Raises
        ------
        UnknownLease
            If there is no live lease of that id.
        """
        return self._explainer.lease(lease_id, self._seen(now_ms), self._revision)

    def why(self, lease_id: str, now_ms: int | None = None) -> Why:
        """Say why a live lease is as it is: who is in its way, and for how long, probably.

        Raises
        ------
        UnknownLease
            If there is no live lease of that id.
        """
        return self._answerer.why(lease_id, self._seen(now_ms), self._revision)

    def proposals(self, now_ms: int | None = None) -> list[Proposal]:
        """List the requests that would fit if a few leases moved; the pool moves nobody."""
        return self._answerer.proposals(self._seen(now_ms), self._revision)

    def place_elsewhere(self, lease_id: str, want: Want, now_ms: int, wall_ms: int) -> Choice:
        """Say where a lease would go if it moved now, and with what; nothing is changed.

        Raises
        ------
        GPUPoolError
            If it cannot move, or no other node has room.
        """
        turn = Turn(self._ledger, self._queue, self._config, self._seen(now_ms), wall_ms)
        return moves.place_of_move(turn, turn.live(lease_id), want)[1]

    @property
    def accuracy(self) -> Accuracy:
        """How good estimates of waits have been, of late."""
        return self._ledger.history.accuracy

    @property
    def judged(self) -> str:
        """Whether the latest estimates were right, to be written down now and then."""
        return self._ledger.history.judged()

    @property
    def usage(self) -> hooks.StandingsBook:
        """What owners hold, deserve and have used."""
        return self._ledger.standings

    def demand_rows(self) -> list[tuple[Shape, int]]:
        """List what accelerators were asked for so far, to be written down now and then."""
        return self._queue.fields.book.rows()

    def _seen(self, now_ms: int | None) -> int:
        return self._now_ms if now_ms is None else max(now_ms, self._now_ms)

    def next_deadline_ms(self) -> int | None:
        """Pool time at which the host must send `TimePassed`; None when nothing is due ever."""
        return expiry.next_deadline_ms(self._ledger)

    def check_invariants(self) -> None:
        """Add everything up from scratch, and compare.

        Raises
        ------
        InvariantBroken
            If the ledger contradicts itself. Never expected.
        """
        check_ledger(self._ledger, self._queue, self._now_ms)
