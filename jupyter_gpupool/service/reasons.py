"""Why a lease is as it is, as its owner is told.

Rule of this module: of leases of others only size, device and age are told, under a name that is good for
nothing.
"""

from __future__ import annotations

from jupyter_gpupool.core.defragment import Move
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.estimates import Spread
from jupyter_gpupool.core.leases import Lease
from jupyter_gpupool.core.why import Blocker
from jupyter_gpupool.protocol.documents import (
    BlockerDoc,
    MoveDoc,
    ProposalDoc,
    ProposedMoveDoc,
    SpreadDoc,
    WhyDoc,
)
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.lease_views import LeaseViews, seconds


def why_doc(host: PoolHost, views: LeaseViews, lease: Lease, who: Principal, now_ms: int) -> WhyDoc:
    """Say why a lease is as it is.

    Parameters
    ----------
    host, views
        The pool, and what names its leases to others.
    lease : Lease
        Which; also one that has ended.
    who : Principal
        Who asks, and may see it.
    now_ms : int
        Pool time.
    """
    try:
        why = host.pool.why(lease.id, now_ms)
    except UnknownLease:
        reason = views.reason(lease)
        return WhyDoc(lease_id=lease.id, state=lease.state, reason=reason, sentences=[reason])
    made, right = host.pool.accuracy
    return WhyDoc(
        lease_id=lease.id,
        state=lease.state,
        reason=why.reason,
        sentences=list(why.sentences),
        waits_for=why.waits_for,
        cause=why.cause,
        position=why.position,
        ahead=why.ahead,
        blockers=[_blocker(host, views, it, who, now_ms) for it in why.blockers],
        estimate=_spread(why.grant, now_ms),
        known=why.known,
        estimates_made=made,
        estimates_right=right,
        would_fit=why.would_fit,
        kept=[_name(host, it) for it in why.kept],
        moves=[_move(host, views, it, who) for it in why.moves],
    )


def _name(host: PoolHost, device_id: str) -> str:
    device = host.pool.device(device_id)
    return device.name if device is not None else device_id


def _move(host: PoolHost, views: LeaseViews, move: Move, who: Principal) -> MoveDoc:
    lease, mine = move.lease, who.may_touch(move.lease)
    return MoveDoc(
        lease_id=lease.id if mine else views.opaque(lease.id),
        mine=mine,
        compute_milli=lease.shares[0].compute_milli,
        from_device=_name(host, move.from_id),
        to_device=_name(host, move.to_id),
    )


def proposal_docs(host: PoolHost, now_ms: int) -> list[ProposalDoc]:
    """Show an administrator what would have to move for requests to fit."""
    return [
        ProposalDoc(
            lease_id=it.lease.id,
            owner=it.lease.owner,
            position=it.position,
            waits_for=it.waits_for,
            waited_seconds=seconds(now_ms - it.lease.requested_ms),
            moves=[_proposed(host, move) for move in it.moves],
        )
        for it in host.pool.proposals(now_ms)
    ]


def _proposed(host: PoolHost, move: Move) -> ProposedMoveDoc:
    return ProposedMoveDoc(
        lease_id=move.lease.id,
        owner=move.lease.owner,
        holder=move.lease.holder.label,
        compute_milli=move.lease.shares[0].compute_milli,
        from_device=_name(host, move.from_id),
        from_hostname=_hostname(host, move.from_id),
        to_device=_name(host, move.to_id),
        to_hostname=_hostname(host, move.to_id),
    )


def _hostname(host: PoolHost, device_id: str) -> str:
    device = host.pool.device(device_id)
    node = host.pool.nodes.get(device.node_id) if device is not None else None
    return node.hostname if node is not None else ""


def _blocker(host: PoolHost, views: LeaseViews, blocker: Blocker, who: Principal, now_ms: int) -> BlockerDoc:
    lease, mine = blocker.lease, who.may_touch(blocker.lease)
    return BlockerDoc(
        lease_id=lease.id if mine else views.opaque(lease.id),
        mine=mine,
        state=lease.state,
        compute_milli=lease.shares[0].compute_milli,
        devices=[_name(host, it) for it in blocker.device_ids],
        held_seconds=seconds(now_ms - (lease.granted_ms or now_ms)),
        ends=_spread(blocker.end, now_ms),
    )


def _spread(spread: Spread | None, now_ms: int) -> SpreadDoc | None:
    if spread is None:
        return None
    low, middle, high = (seconds(it - now_ms) for it in spread)
    return SpreadDoc(low_seconds=low, seconds=middle, high_seconds=high)
