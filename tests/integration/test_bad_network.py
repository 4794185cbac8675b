"""A node behind a bad cable: late, lossy and stalling is borne; silence for too long is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_several_hosts import Pool
from tests.support.cables import BadCable
from tests.support.hosts import inside, network
from tests.support.launches import start_holder
from tests.support.pool_process import PoolProcess, wait_for

# not beside others: a machine that is busy is late, too
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hosts")]
#: How long the service bears silence on an open connection, and then waits for the node, by default, seconds.
SILENCE_SECONDS, GRACE_SECONDS = 8, 15


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with network(tmp_path_factory.mktemp("bad"), 4) as made:
        yield Pool(made)


@pytest.fixture(scope="module")
def cable(pool: Pool) -> Iterator[BadCable]:
    """Put the first node behind 100 ms each way, 2 % loss, and stalls of up to 2 s every 1 to 3 s."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("this machine has no /dev/net/tun")
    bad = BadCable(pool.network, pool.first, delay_seconds=0.1, loss=0.02, stall_seconds=(0.2, 2.0), seed=20)
    with bad:
        yield bad


@pytest.fixture(scope="module")
def api(pool: Pool, cable: BadCable) -> Iterator[PoolProcess]:
    """Run the service with its defaults, and join the node; give the service's API."""
    pool.serve(f"--PoolService.agent_grace_seconds={GRACE_SECONDS}")
    pool.join(pool.first, "n1", pool.token(), "--PoolAgent.accounts={'root': 'root'}")
    wait_for(lambda: pool.connected() == {"n1"}, "the node to join", 60.0)
    with inside(pool.host):
        wait_for(lambda: sum(it["offered"] for it in pool.state()["devices"]) == 1, "its device")
        asked = PoolProcess(pool.host.environment)
        yield asked
        asked.http.clear()


def connections(pool: Pool) -> int:
    """Return how often the node's agent has connected to the pool."""
    return pool.first.log("agent.log").count("Connected to the pool")


def test_a_node_that_is_late_and_stalls_is_never_given_up(
    pool: Pool, cable: BadCable, api: PoolProcess
) -> None:
    lease, process = start_holder(api)
    lost, until = cable.lost, cable.stalls + 8

    def borne() -> bool:
        # it may be away for a moment: after stalls TCP waits for seconds before it sends again what was lost
        (present,) = api.get("/api/v1/leases").body
        assert (present["id"], present["state"]) == (lease["id"], "active")
        assert Path(f"/proc/{process['pid']}").exists()
        return cable.stalls >= until

    wait_for(borne, "the cable to have stalled eight times", 120.0)
    assert cable.lost > lost
    api.release(lease["id"])
    assert api.wait_state(lease["id"], "ended")["end_reason"] == "released"
    wait_for(lambda: not Path(f"/proc/{process['pid']}").exists(), "the holder to be gone")


def test_a_node_that_is_silent_for_too_long_loses_its_leases_and_learns_it_when_it_is_back(
    pool: Pool, cable: BadCable, api: PoolProcess
) -> None:
    lease, process = start_holder(api)
    before = connections(pool)
    cable.silence()
    try:
        api.wait_state(lease["id"], "ended", seconds=2 * (SILENCE_SECONDS + GRACE_SECONDS))
        assert Path(f"/proc/{process['pid']}").exists()
        assert not any(it["offered"] for it in api.get("/api/v1/devices").body)
    finally:
        cable.mend()

    def offered_again() -> bool:
        gone = not Path(f"/proc/{process['pid']}").exists()
        offered = any(it["offered"] for it in api.get("/api/v1/devices").body)
        assert gone or not offered, "the device is offered while its holder of before lives"
        return offered

    wait_for(offered_again, "the device to be offered again", 60.0)
    assert connections(pool) > before
    assert api.get(f"/api/v1/leases/{lease['id']}").body["end_reason"] == "agent_lost"
