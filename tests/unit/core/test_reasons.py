"""Reasons: every wait has one that a person can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.testing import GIB, PoolDriver, a_device, a_want
from tests.support.pools import MakePool


def reason(pool: PoolDriver, lease_id: str) -> str:
    return pool.pool.reason(lease_id, pool.now_ms)


def test_who_is_not_next_is_told_how_many_are_ahead(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0", memory_bytes=80 * GIB))
    pool.hold(1000)
    for _ in range(3):
        pool.request(1000)
    lease_id = pool.request(a_want(500, memory_bytes=20 * GIB))
    assert reason(pool, lease_id) == ("Waiting for 0.5 of a CUDA device with 20.0 GiB: 3 ahead of you.")


def test_who_is_next_is_told_what_is_free(pool: PoolDriver) -> None:
    pool.hold(750)
    lease_id = pool.request(500)
    assert reason(pool, lease_id) == (
        "Waiting for 0.5 of a CPU device: next in line; 0.25 with 4.0 GiB is free on cpu."
    )


def test_where_nothing_is_free_it_says_so(pool: PoolDriver) -> None:
    pool.hold(1000)
    assert "nothing is free on cpu" in reason(pool, pool.request())


def test_memory_without_a_lease_is_named(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cpu", unmanaged_bytes=15 * GIB))
    assert "15.0 GiB is used by processes without a lease" in reason(
        pool, pool.request(a_want(250, memory_bytes=4 * GIB))
    )


def test_the_next_release_is_named_where_it_is_known(pool: PoolDriver) -> None:
    pool.hold(500, hold_ms=240_000)
    pool.hold(500)
    first, second = pool.request(), pool.request()
    pool.advance(1000)
    expected = "the next release is expected in 3 min 59 s"
    assert expected in reason(pool, first)
    assert expected in reason(pool, second)
    assert expected in pool.pool.queue(pool.now_ms)[0].reason


def test_a_device_is_named_with_its_node_where_there_are_several(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda0", node_id="node-2"))
    pool.hold(1000)
    pool.hold(750)
    assert "free on cuda0 on node-" in reason(pool, pool.request(500))


def test_a_device_that_somebody_else_manages_is_named_with_who(pool: PoolDriver) -> None:
    pool.report(lambda it: replace(it, taken_by="ann's pool (pid 4711)"))
    lease_id = pool.request(a_want(kind=DeviceKind.CPU))
    assert reason(pool, lease_id).endswith(
        "no such device is offered: cpu is managed by ann's pool (pid 4711)."
    )


def test_an_agent_that_is_away_is_named(pool: PoolDriver) -> None:
    held = pool.hold(250)
    pool.leave()
    assert "cpu is not offered: its agent is not connected" in reason(pool, pool.request())
    assert "the lease ends in 15 s unless it comes back" in reason(pool, held)


def test_many_devices_that_are_not_offered_are_not_all_listed(a_pool: MakePool) -> None:
    pool = a_pool(*(a_device(f"cuda{it}") for it in range(5)))
    pool.leave()
    assert "; and 3 more." in reason(pool, pool.request())


def test_each_state_says_what_happens_next(pool: PoolDriver) -> None:
    lease_id = pool.request(hold_ms=600_000, restartable=True)
    assert reason(pool, lease_id) == "Granted; waiting for the holder to attach (1 min left)."
    pool.attach(lease_id)
    assert reason(pool, lease_id) == "Held for another 10 min."
    pool.resize(lease_id, 500)
    assert "resizing to 0.5 with 8.0 GiB" in reason(pool, lease_id)
    pool.exit(lease_id)
    assert reason(pool, lease_id) == "Restarting: waiting for the kernel to attach again (10 s left)."
    pool.release(lease_id)
    assert reason(pool, lease_id) == (
        "Ending (released): waiting for the agent to confirm that nothing of it is left."
    )
    pool.advance(30_000)
    assert reason(pool, lease_id).endswith("That is overdue: cpu is quarantined until it does.")
    pool.detach(lease_id)
    with pytest.raises(UnknownLease):
        reason(pool, lease_id)


def test_a_lease_without_an_end_is_simply_held(pool: PoolDriver) -> None:
    assert reason(pool, pool.hold()) == "Held."


def test_the_reason_for_withholding_a_device_is_empty_when_it_is_offered(pool: PoolDriver) -> None:
    assert pool.pool.withheld_reason("CPU-node-1-cpu") == ""
    assert "not known" in pool.pool.withheld_reason("CPU-elsewhere")
