"""Why a request waits: what it waits for, who is in its way, and for how long, probably.

Rule of this module: it looks and decides nothing. What it tells of the future is said to be an estimate, with
its interval, and how often such intervals were right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.causes import Cause
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.defragment import Move, propose
from jupyter_gpupool.core.devices import Device
from jupyter_gpupool.core.estimates import Accuracy, Spread
from jupyter_gpupool.core.explain import Explainer
from jupyter_gpupool.core.forecast import end_of, forecast, is_known
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_duration
from jupyter_gpupool.core.wording import describe_device, describe_want, list_devices, plural

#: How many leases are named that are in the way.
_MOST_BLOCKERS = 32
#: At how many requests is looked, from the first in line, for proposals.
_MOST_PROPOSALS = 16


class Blocker(NamedTuple):
    """A lease that has what a request waits for.

    Attributes
    ----------
    lease : Lease
        The lease.
    device_ids : tuple of str
        Those of its devices that are meant.
    end : Spread or None
        Pool time at which it probably ends; None when nobody can tell.
    """

    lease: Lease
    device_ids: tuple[str, ...]
    end: Spread | None


class Proposal(NamedTuple):
    """What would have to move for a request to fit; the pool moves nobody.

    Attributes
    ----------
    lease : Lease
        The request.
    position : int
        Its place in the queue.
    waits_for : str
        What it waits for.
    moves : tuple of Move
        The fewest leases whose move would make room for it.
    """

    lease: Lease
    position: int
    waits_for: str
    moves: tuple[Move, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """Why a lease is as it is.

    Attributes
    ----------
    reason : str
        The same in one sentence.
    waits_for : str
        What it waits for; empty unless it waits.
    cause : Cause or None
        What kind of thing keeps it from it; None unless it waits.
    position, ahead : int or None
        Place in the queue, and how many requests are before it.
    blockers : tuple of Blocker
        Which leases are in its way.
    grant : Spread or None
        Pool time at which it is probably granted; None when nobody can tell.
    known : bool
        True when that follows from what everybody said, without any history.
    would_fit : str
        What would be granted now; empty when nothing would.
    kept : tuple of str
        The devices that are kept for who is first in line for such devices.
    moves : tuple of Move
        Leases whose move would make room for it: a proposal to the people concerned.
    sentences : tuple of str
        All of that but the blockers, for a person.
    """

    reason: str
    waits_for: str = ""
    cause: Cause | None = None
    position: int | None = None
    ahead: int | None = None
    blockers: tuple[Blocker, ...] = ()
    grant: Spread | None = None
    known: bool = False
    would_fit: str = ""
    kept: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    sentences: tuple[str, ...] = ()


class Answerer:
    """Answers why."""

    def __init__(self, ledger: Ledger, queue: Queue, config: PoolConfig, explainer: Explainer) -> None:
        self._ledger = ledger
        self._queue = queue
        self._config = config
        self._explainer = explainer

    def why(self, lease_id: str, now_ms: int, revision: int) -> Why:
        """Say why a live lease is as it is.

        What is told of a wait is remembered, to see later whether it was right.

        Raises
        ------
        UnknownLease
            If there is no live lease of that id.
        """
        reason = self._explainer.lease(lease_id, now_ms, revision)
        lease = self._ledger.leases[lease_id]
        if lease.state is not LeaseState.QUEUED:
            return Why(reason=reason, sentences=(reason,))
        position = self._explainer.position(lease_id, now_ms, revision)
        cause, usable = self._cause(lease, now_ms)
        blockers: tuple[Blocker, ...] = ()
        moves: tuple[Move, ...]
        grant, known, would_fit, moves = None, False, "", ()
        if cause is Cause.CAPACITY:
            would_fit = self._would_fit(lease, usable)
            moves = propose(self._ledger, self._queue, lease, usable)
            blockers = self._blockers(lease, usable, now_ms)
            ahead = self._before(lease, position, now_ms)
            everything = self._queue.could_use(_least(lease.want))
            grant = forecast(self._ledger, ahead, lease, everything, now_ms)
            known = is_known(self._ledger, ahead, everything)
            if grant is not None:
                self._ledger.history.tell(lease_id, grant)
        found = Why(
            reason=reason,
            waits_for=describe_want(lease.want),
            cause=cause,
            position=position,
            ahead=position - 1,
            blockers=blockers,
            grant=grant,
            known=known,
            would_fit=would_fit,
            kept=self._queue.kept_for_first(lease),
            moves=moves,
        )
        sentences = _sentences(found, self._ledger.history.accuracy, now_ms)
        sentences[1:1] = self._kept(found, lease)
        sentences += self._moves(found, lease)
        return replace(found, sentences=tuple(sentences))

    def proposals(self, now_ms: int, revision: int) -> list[Proposal]:
        """List the requests that would fit if a few leases moved, in the order of the queue.

        Each is looked at alone: what moves for one may be in the way of another.
        """
        found = []
        for entry in self._explainer.queue(now_ms, revision)[:_MOST_PROPOSALS]:
            cause, usable = self._cause(entry.lease, now_ms)
            if cause is Cause.CAPACITY:
                moves = propose(self._ledger, self._queue, entry.lease, usable)
                if moves:
                    found.append(
                        Proposal(entry.lease, entry.position, describe_want(entry.lease.want), moves)
                    )
        return found

    def _kept(self, why: Why, lease: Lease) -> list[str]:
        """Say which devices are kept for the first in line."""
        if not why.kept:
            return []
        whom = "it" if self._queue.reservation(lease.id) is not None else "the first in line"
        return [f"Kept for {whom}: {list_devices(self._ledger, why.kept)}."]

    def _moves(self, why: Why, lease: Lease) -> list[str]:
        """Say which leases would have to move."""
        if not why.moves:
            return []
        parts = []
        for it in why.moves:
            whose = "yours" if it.lease.owner == lease.owner else "a lease of somebody else"
            size = format_compute(it.lease.shares[0].compute_milli)
            before, after = (describe_device(self._ledger, device) for device in (it.from_id, it.to_id))
            parts.append(f"{whose} ({size} of {before}) to {after}")
        return [
            f"It would fit if this moved: {', and '.join(parts)}. The pool moves nobody: "
            "whoever has it can release it and ask for it again."
        ]

    def _cause(self, lease: Lease, now_ms: int) -> tuple[Cause, list[tuple[Account, Device]]]:
        usable = self._queue.could_use(lease.want) if self._ledger.accepting else []
        if not usable:
            return Cause.POOL, usable
        if self._explainer.policy(lease, now_ms):
            return Cause.POLICY, usable
        return Cause.CAPACITY, usable

    def _before(self, lease: Lease, position: int, now_ms: int) -> list[Lease]:
        """List the requests for the same kind of device that come first."""
        if position == 1:
            return []
        kind = lease.want.kind
        found = []
        for lease_id in self._queue.positions(now_ms):
            if lease_id == lease.id:
                break
            other = self._ledger.leases[lease_id]
            if kind is None or other.want.kind in (None, kind):
                found.append(other)
        return found

    def _blockers(
        self, lease: Lease, usable: Sequence[tuple[Account, Device]], now_ms: int
    ) -> tuple[Blocker, ...]:
        """List the leases on the devices that are kept for a request, or that come nearest to having room."""
        kept = self._queue.reservation(lease.id)
        if kept is not None:
            meant = [it for it in usable if it[1].id in kept.kept]
        else:
            nearest = sorted(usable, key=lambda it: (-it[0].free_compute_milli, -it[0].free_memory_bytes))
            meant = nearest[: lease.want.count]
        devices: dict[str, list[str]] = {}
        for account, device in meant:
            for lease_id in account.leases:
                devices.setdefault(lease_id, []).append(device.id)
        found = []
        for lease_id, ids in list(devices.items())[:_MOST_BLOCKERS]:
            other = self._ledger.leases[lease_id]
            found.append(Blocker(other, tuple(ids), end_of(self._ledger, other, now_ms)))
        return tuple(found)

    def _would_fit(self, lease: Lease, usable: Sequence[tuple[Account, Device]]) -> str:
        """Name the largest part of what is asked for that would be granted now."""
        want = lease.want
        for smaller in _smaller(want, usable):
            if self._queue.fits_without(replace(lease, want=smaller), frozenset()):
                return describe_want(smaller)
        return ""


def _least(want: Want) -> Want:
    """Ask for any device of the same kind."""
    return Want(compute_milli=1, kind=want.kind)


def _smaller(want: Want, usable: Sequence[tuple[Account, Device]]) -> list[Want]:
    """List smaller requests, the largest first: fewer devices, then less of one."""
    found = [replace(want, count=count) for count in range(min(want.count - 1, 16), 0, -1)]
    shared = [account for account, device in usable if not device.whole_only]
    free = max((account.free_compute_milli for account in shared), default=0)
    for milli in dict.fromkeys((min(free, WHOLE_MILLI), 750, 500, 250, 125)):
        if 0 < milli < want.compute_milli and milli <= free:
            size = want.memory_bytes
            part = None if size is None else max(1, size * milli // want.compute_milli)
            found.append(replace(want, count=1, compute_milli=milli, memory_bytes=part))
    return found


def _sentences(why: Why, accuracy: Accuracy, now_ms: int) -> list[str]:
    found = [why.reason]
    if why.grant is not None:
        found.append(_expected(why.grant, now_ms, known=why.known))
        if not why.known:
            found.append(describe_accuracy(accuracy))
    elif why.cause is Cause.CAPACITY:
        found.append("Nobody can tell when: too few leases have ended so far, or too many requests wait.")
    if why.would_fit:
        found.append(f"Granted now: {why.would_fit}.")
    return found


def _expected(grant: Spread, now_ms: int, *, known: bool) -> str:
    low, middle, high = (format_duration(max(0, it - now_ms) / 1000) for it in grant)
    if known:
        return f"Expected in {middle} at the latest: by then the leases in its way end, as was said of them."
    return f"Expected in {middle} (most likely {low} to {high}), by how long leases were held before."


def describe_accuracy(accuracy: Accuracy) -> str:
    """Say how good estimates have been."""
    if not accuracy.told:
        return "No wait that such an estimate was made of is over yet."
    waits = plural(accuracy.told, "wait", "waits")
    return f"Of the last {waits}, {accuracy.inside} ended within what was told."
