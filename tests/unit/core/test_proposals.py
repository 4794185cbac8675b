"""What is told beyond the reason: what is kept, could move, is elsewhere; and where a holder runs."""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.leases import Holder, LeaseState
from jupyter_gpupool.testing import PoolDriver, a_device, a_want
from tests.support.pools import MakePool

S = LeaseState
ONE, TWO = "CUDA-node-1-cuda0", "CUDA-node-1-cuda1"


def a_scattered_pool(a_pool: MakePool, *, restartable: bool = True) -> tuple[PoolDriver, str]:
    """Make a pool of two GPUs with a quarter of each taken, and a request for a whole one."""
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    for device, owner in ((ONE, "ann"), (TWO, "bob")):
        pool.hold(a_want(250, device=device), owner=owner, restartable=restartable)
    first = pool.lease("lease_000001")
    assert [it.device_id for it in first.shares] == [ONE]
    return pool, pool.request(1000, owner="carl")


def test_a_lease_that_asked_for_its_very_device_is_not_proposed_to_move(a_pool: MakePool) -> None:
    pool, waits = a_scattered_pool(a_pool)
    assert pool.pool.why(waits).moves == ()


def scattered(a_pool: MakePool, *, restartable: bool) -> tuple[PoolDriver, str]:
    """Make the same of leases that did not name their devices."""
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    blocks = pool.hold(900, owner="dora")
    pool.hold(250, owner="ann", restartable=restartable)
    pool.end(blocks)
    blocks = pool.hold(a_want(750, device="cuda1"), owner="dora")
    pool.hold(250, owner="bob", restartable=restartable)
    pool.end(blocks)
    return pool, pool.request(1000, owner="bob", key="other")


def test_leases_whose_move_would_make_room_are_named_and_nobody_is_moved(a_pool: MakePool) -> None:
    pool, waits = scattered(a_pool, restartable=True)
    why = pool.pool.why(waits)
    (move,) = why.moves
    assert {move.from_id, move.to_id} == {ONE, TWO}
    told = " ".join(why.sentences)
    assert "It would fit if this moved:" in told
    assert "ann" not in told
    pool.advance(3_600_000)
    assert pool.state(waits) is S.QUEUED
    pool.end(move.lease.id)  # its holder does as proposed
    again = pool.request(replace(move.lease.want), owner=move.lease.owner, key="again")
    assert pool.state(waits) is S.ATTACHING
    assert pool.lease(again).shares[0].device_id == move.to_id


def test_a_lease_in_use_that_cannot_restart_is_not_proposed_to_move(a_pool: MakePool) -> None:
    pool, waits = scattered(a_pool, restartable=False)
    assert pool.pool.why(waits).moves == ()
    for lease_id in [it.id for it in pool.pool.leases.values() if it.state is S.ACTIVE]:
        pool.handle(ev.ActivitySeen(lease_id=lease_id, busy=False, idle_ms=0, **pool.when))
    assert len(pool.pool.why(waits).moves) == 1


def test_why_says_which_devices_are_kept_for_the_first_in_line(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    pool.hold(500, hold_ms=60_000)
    first = pool.request(1000, key="first")
    second = pool.request(750, key="second")
    assert pool.pool.why(first).kept == pool.pool.why(second).kept == (ONE,)
    assert "Kept for it: cuda0." in pool.pool.why(first).sentences
    assert "Kept for the first in line: cuda0." in pool.pool.why(second).sentences


def test_the_reason_of_a_lease_tells_that_it_is_taken_back(a_pool: MakePool) -> None:
    config = PoolConfig(reclaim_idle_ms=60_000, notice_ms=30_000, least_run_ms=0)
    pool = a_pool(a_device("cuda0"), config=config)
    held = pool.hold(1000)
    pool.handle(ev.ActivitySeen(lease_id=held, busy=False, idle_ms=0, **pool.when))
    pool.request(500, owner="bob")
    pool.advance(60_000)
    assert "It is taken back in 30 s: somebody waits" in pool.pool.reason(held)


def test_devices_of_a_gang_on_other_nodes_are_told_of(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda0", node_id="node-2"))
    gang = pool.hold(replace(a_want(1000), count=2, spread=True))
    assert pool.pool.reason(gang).startswith("Held. Held on other nodes, for processes")
    elsewhere = "node-2" if pool.lease(gang).node_id == "node-1" else "node-1"
    assert f"cuda0 on {elsewhere}.test." in pool.pool.reason(gang)


def test_a_lease_is_granted_where_its_holder_runs_if_there_is_room(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device("cuda0", node_id=f"node-{it}") for it in (1, 2, 3)))

    def node_for(key: str, milli: int, hostname: str) -> str:
        event = ev.LeaseRequested(
            lease_id=f"lease_9{key}",
            owner="ann",
            holder=Holder(key=key, hostname=hostname),
            want=a_want(milli),
            wait_ms=None,
            hold_ms=None,
            **pool.when,
        )
        pool.handle(event)
        return pool.lease(event.lease_id).node_id

    assert node_for("1", 750, "node-3.test") == "node-3"
    assert node_for("2", 500, "node-3.test") != "node-3"
    assert node_for("3", 250, "node-3.test") == "node-3"
    assert node_for("4", 250, "laptop") != "node-3"


def test_all_proposals_are_listed_in_the_order_of_the_queue(a_pool: MakePool) -> None:
    pool, waits = scattered(a_pool, restartable=True)
    second = pool.request(1000, owner="carl")
    found = pool.pool.proposals()
    queue = [it.lease.id for it in pool.pool.queue()]
    assert sorted(queue) == [waits, second]
    assert [(it.lease.id, it.position) for it in found] == [(queue[0], 1), (queue[1], 2)]
    assert all(it.moves == pool.pool.why(it.lease.id).moves for it in found)
    for lease_id in ("lease_000002", "lease_000004"):
        pool.end(lease_id)
    assert not pool.pool.proposals()
