"""Every event that names a lease, in every state that a lease can be in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.effects import Detach, WriteDown
from jupyter_gpupool.core.errors import DuplicateLease, GPUPoolError, IllegalTransition, UnknownLease
from jupyter_gpupool.core.leases import Holder, LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.snapshots import snapshot

S = LeaseState
#: What is expected: the state afterwards, an error, or None when the event is passed over.
Outcome = LeaseState | type[GPUPoolError] | None

EVENTS: dict[str, Callable[[PoolDriver, str], ev.Event]] = {
    "request": lambda pool, it: ev.LeaseRequested(
        lease_id=it, owner="bob", holder=Holder(key="other"), want=a_want(), **pool.when
    ),
    "release": lambda pool, it: ev.ReleaseRequested(lease_id=it, **pool.when),
    "resize": lambda pool, it: ev.ResizeRequested(lease_id=it, compute_milli=100, **pool.when),
    "waiter_lost": lambda pool, it: ev.WaiterLost(lease_id=it, **pool.when),
    "attached": lambda pool, it: ev.HolderAttached(
        pid=42, isolation=(), node_id="node-1", **about(pool, it), **pool.when
    ),
    "attach_refused": lambda pool, it: ev.AttachRefused(detail="", **about(pool, it), **pool.when),
    "limits_applied": lambda pool, it: ev.LimitsApplied(isolation=(), **about(pool, it), **pool.when),
    "limits_refused": lambda pool, it: ev.LimitsRefused(detail="", **about(pool, it), **pool.when),
    "exited": lambda pool, it: ev.HolderExited(**about(pool, it), **pool.when),
    "detached": lambda pool, it: ev.HolderDetached(**about(pool, it), **pool.when),
    "pinned": lambda pool, it: ev.PinRequested(lease_id=it, pinned=True, **pool.when),
    "busy": lambda pool, it: ev.ActivitySeen(lease_id=it, busy=True, **pool.when),
    "idle": lambda pool, it: ev.ActivitySeen(lease_id=it, busy=False, **pool.when),
}

EXPECTED: dict[S, dict[str, Outcome]] = {
    S.QUEUED: {
        "request": DuplicateLease,
        "release": S.ENDED,
        "resize": IllegalTransition,
        "waiter_lost": S.ENDED,
        "attached": IllegalTransition,
        "attach_refused": IllegalTransition,
        "limits_applied": IllegalTransition,
        "limits_refused": IllegalTransition,
        "exited": IllegalTransition,
        "detached": IllegalTransition,
        "pinned": IllegalTransition,
        "busy": None,
        "idle": None,
    },
    S.ATTACHING: {
        "request": DuplicateLease,
        "release": S.ENDING,
        "resize": IllegalTransition,
        "waiter_lost": None,
        "attached": S.ACTIVE,
        "attach_refused": S.ENDED,
        "limits_applied": IllegalTransition,
        "limits_refused": IllegalTransition,
        "exited": IllegalTransition,
        "detached": IllegalTransition,
        "pinned": IllegalTransition,
        "busy": None,
        "idle": None,
    },
    S.ACTIVE: {
        "request": DuplicateLease,
        "release": S.ENDING,
        "resize": S.ACTIVE,
        "waiter_lost": None,
        "attached": IllegalTransition,
        "attach_refused": IllegalTransition,
        "limits_applied": S.ACTIVE,
        "limits_refused": None,  # no resize is on its way
        "exited": S.ENDING,
        "detached": IllegalTransition,
        "pinned": S.ACTIVE,
        "busy": None,
        "idle": None,
    },
    S.ENDING: {
        "request": DuplicateLease,
        "release": None,
        "resize": IllegalTransition,
        "waiter_lost": None,
        "attached": None,  # and the holder is detached again
        "attach_refused": IllegalTransition,
        "limits_applied": IllegalTransition,
        "limits_refused": IllegalTransition,
        "exited": S.ENDING,
        "detached": S.ENDED,
        "pinned": IllegalTransition,
        "busy": None,
        "idle": None,
    },
    S.ENDED: {
        "request": S.QUEUED,  # the core remembers no ended lease: ids are minted once
        "release": UnknownLease,
        "resize": UnknownLease,
        "waiter_lost": None,
        "attached": None,  # and the holder is detached again
        "attach_refused": UnknownLease,
        "limits_applied": UnknownLease,
        "limits_refused": UnknownLease,
        "exited": None,
        "detached": None,
        "pinned": UnknownLease,
        "busy": None,
        "idle": None,
    },
}
PAIRS = [(state, name) for state in S for name in EVENTS]


def about(pool: PoolDriver, lease_id: str) -> dict[str, object]:
    return {"lease_id": lease_id, "generation": pool.lease(lease_id).generation}


def a_lease_that_is(pool: PoolDriver, state: LeaseState) -> str:
    """Bring a lease into a state, as it gets there in life."""
    if state is S.QUEUED:
        pool.hold(1000)
        return pool.request()
    lease_id = pool.request()
    if state is not S.ATTACHING:
        pool.attach(lease_id)
    if state in (S.ENDING, S.ENDED):
        pool.release(lease_id)
    if state is S.ENDED:
        pool.detach(lease_id)
    assert pool.state(lease_id) is state
    return lease_id


def test_every_pair_is_decided() -> None:
    assert {state: set(row) for state, row in EXPECTED.items()} == {state: set(EVENTS) for state in S}


@pytest.mark.parametrize(("state", "name"), PAIRS, ids=lambda it: getattr(it, "value", it))
def test_an_event_does_what_it_should_in_a_state(pool: PoolDriver, state: LeaseState, name: str) -> None:
    lease_id = a_lease_that_is(pool, state)
    expected = EXPECTED[state][name]
    pool.now_ms += 1000
    event = EVENTS[name](pool, lease_id)
    before = snapshot(pool.pool)
    if expected is None:
        pool.pool.handle(event)
        assert pool.state(lease_id) is state
    elif isinstance(expected, LeaseState):
        if state is S.ENDED:
            pool.pool.handle(event)  # a new lease with an old id does not follow from the journal
            assert lease_id in pool.pool.leases
            pool.journal.rows[lease_id] = pool.pool.leases[lease_id]
            return
        pool.handle(event)
        assert pool.state(lease_id) is expected
    else:
        with pytest.raises(expected):
            pool.handle(event)
        assert snapshot(pool.pool) == before


@pytest.mark.parametrize("state", [S.ENDING, S.ENDED], ids=lambda it: it.value)
def test_a_holder_attached_too_late_is_detached_again(pool: PoolDriver, state: LeaseState) -> None:
    lease_id = a_lease_that_is(pool, state)
    pool.handle(EVENTS["attached"](pool, lease_id))
    assert [it.lease_id for it in pool.told(Detach)] == [lease_id]
    assert not pool.told(WriteDown)


@pytest.mark.parametrize("name", ["attached", "attach_refused", "limits_applied", "exited", "detached"])
def test_a_report_on_an_earlier_process_changes_nothing(pool: PoolDriver, name: str) -> None:
    lease_id = pool.hold(restartable=True)
    event = EVENTS[name](pool, lease_id)
    pool.exit(lease_id)
    before = snapshot(pool.pool)
    with pytest.raises(GPUPoolError, match="generation 1"):
        pool.handle(event)
    assert snapshot(pool.pool) == before


def test_time_never_goes_back(pool: PoolDriver) -> None:
    pool.now_ms = 5000
    lease_id = pool.hold()
    pool.now_ms = 1000
    pool.end(lease_id)
    assert pool.lease(lease_id).ended_ms == 5000
    pool.now_ms = 5000


def test_what_changes_nothing_leaves_the_revision_alone(pool: PoolDriver) -> None:
    lease_id = pool.hold()
    revision = pool.pool.revision
    pool.report(lambda device: device)
    pool.handle(ev.TimePassed(**pool.when))
    pool.resize(lease_id, 250)
    assert pool.pool.revision == revision
    pool.release(lease_id)
    assert pool.pool.revision == revision + 1


def test_a_device_of_another_node_is_not_taken_from_a_report(pool: PoolDriver) -> None:
    pool.join("node-2", [a_device("cpu")])
    assert [it.node_id for it in pool.pool.devices.values()] == ["node-1"]
