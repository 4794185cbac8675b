"""Leases on GPUs, all the way: a real service, a real agent, real holders; only the drivers are fakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.protocol.names import API_PREFIX
from tests.support.fake_cuda import CUDAHolder, cuda_environment
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS
from tests.support.pool_process import PoolProcess, running_pool, wait_for, world

GIB = 2**30
#: The agent looks at devices that nobody holds every ten seconds.
PATIENCE = 25.0


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> FakeGPUs:
    """Return two A100, and an H100 with three MIG instances."""
    return FakeGPUs(tmp_path_factory.mktemp("gpus")).a100(2).h100_mig()


@pytest.fixture(scope="module")
def shared(gpus: FakeGPUs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProcess]:
    """One service for this module; who exceeds a share is interrupted soon."""
    home = tmp_path_factory.mktemp("pool")
    environment = cuda_environment(gpus.state, {**world(home), **gpus.environment()})
    arguments = (
        *("--over-limit", "interrupt", "--sharing", "timeslice"),
        *("--PoolAgent.grace_seconds=2", "--PoolAgent.xid_quiet_seconds=5"),
    )
    with running_pool(environment, arguments=arguments) as pool:
        yield pool


@pytest.fixture
def pool(shared: PoolProcess) -> Iterator[PoolProcess]:
    """Use the same, with no lease left behind in it by a test."""
    yield shared
    for lease in shared.get(f"{API_PREFIX}/leases").body:
        shared.release(lease["id"])
    wait_for(lambda: shared.get(f"{API_PREFIX}/leases").body == [], "all leases to be gone")


@pytest.fixture
def holder(pool: PoolProcess) -> Iterator[CUDAHolder]:
    """Return a process that can use the GPUs."""
    with CUDAHolder(pool.environment) as process:
        yield process


def attached(pool: PoolProcess, holder: CUDAHolder, milli: int = 250, **fields: Any) -> tuple[Any, Any]:
    """Give a holder a lease; return the lease and what the agent answered."""
    doc = pool.request(milli, kind="cuda", **fields)
    reply = holder.do("attach", path=doc["attach"]["socket"], ticket=doc["attach"]["ticket"])
    if reply["error"]:
        return doc, reply
    return pool.wait_state(doc["id"], "active"), reply


def isolation(pool: PoolProcess, lease_id: str) -> dict[str, tuple[str, str, str]]:
    """Return what a lease says of memory and compute: strength, mechanism, verified."""
    docs = pool.lease(lease_id)["isolation"]
    return {doc["resource"]: (doc["strength"], doc["mechanism"], doc["verified"]) for doc in docs}


def device(pool: PoolProcess, name: str) -> Any:
    """Return a device."""
    return next(each for each in pool.get(f"{API_PREFIX}/devices").body if each["name"] == name)


def on(pool: PoolProcess, name: str) -> dict[int, Any]:
    """Return the processes that use a device without a lease, by pid."""
    return {each["pid"]: each for each in device(pool, name)["unmanaged"]}


def test_the_devices_are_there_with_what_a_new_lease_gets(pool: PoolProcess) -> None:
    devices = {each["name"]: each for each in pool.get(f"{API_PREFIX}/devices").body}
    assert list(devices) == ["cpu", "cuda0", "cuda1", "cuda2-mig0", "cuda2-mig1", "cuda2-mig2"]
    assert devices["cuda0"]["sharing"] == "timeslice"
    assert "a fraction does not buy compute" in devices["cuda0"]["isolation"][1]["note"]
    assert devices["cuda2-mig1"]["whole_only"]


def test_a_lease_is_pending_until_cuda_runs_is_then_read_back_and_leaves_nothing(
    pool: PoolProcess, gpus: FakeGPUs, holder: CUDAHolder
) -> None:
    lease, reply = attached(pool, holder, device="cuda0")
    assert reply["environment"]["CUDA_VISIBLE_DEVICES"] == gpus.uuid(0)
    assert isolation(pool, lease["id"])["memory"] == ("soft", "framework caps, use watched", "pending")
    assert isolation(pool, lease["id"])["compute"][:2] == ("none", "time-slicing")

    assert holder.init()["error"] == ""
    wait_for(lambda: isolation(pool, lease["id"])["memory"][2] == "read-back", "the proof")
    wait_for(lambda: pool.lease(lease["id"])["memory_used_bytes"], "its use of memory")
    assert device(pool, "cuda0")["unmanaged"] == []

    pool.release(lease["id"])
    pool.wait_state(lease["id"], "ended")
    assert list((pool.runtime / "holders").iterdir()) == []


@pytest.mark.slow
@pytest.mark.beside
def test_who_exceeds_the_share_is_warned_and_then_interrupted(pool: PoolProcess, holder: CUDAHolder) -> None:
    lease, _ = attached(pool, holder, 100, memory_bytes=4 * GIB, device="cuda1")
    holder.init()
    holder.alloc(int(3.7 * GIB))
    [warning] = wait_for(lambda: pool.lease(lease["id"])["notices"] or None, "the warning")
    assert "of its 4.0 GiB on cuda1" in warning
    holder.alloc(GIB)
    wait_for(lambda: "more than its share" in str(pool.lease(lease["id"])["notices"]), "the threat")
    assert holder.process.wait(20) != 0  # a plain process ends at the stop button's signal
    assert pool.wait_state(lease["id"], "ended")["end_reason"] == "holder_exited"


def test_a_quarter_of_a_gpu_may_be_a_mig_instance_which_is_granted_whole(
    pool: PoolProcess, gpus: FakeGPUs, holder: CUDAHolder
) -> None:
    lease, reply = attached(pool, holder, 200, device="cuda2-mig1")
    [share] = lease["shares"]
    assert (share["device_name"], share["compute_milli"]) == ("cuda2-mig1", 1000)
    assert reply["environment"]["CUDA_VISIBLE_DEVICES"] == gpus.uuid(2, 1)
    assert holder.init()["error"] == ""
    wait_for(lambda: isolation(pool, lease["id"])["memory"][2] == "read-back", "the proof")
    assert isolation(pool, lease["id"])["compute"][1] == "MIG instance"


def test_a_kernel_with_cuda_started_is_told_or_refused(pool: PoolProcess, holder: CUDAHolder) -> None:
    uuids = {name: device(pool, name)["id"] for name in ("cuda0", "cuda1")}
    assert holder.init(CUDA_VISIBLE_DEVICES=uuids["cuda1"])["error"] == ""
    refused, reply = attached(pool, holder, device="cuda0")
    assert reply["error"]["code"] == "other_device"
    assert "request --device cuda1" in reply["error"]["hint"]
    assert pool.wait_state(refused["id"], "ended")["end_reason"] == "attach_refused"

    lease, reply = attached(pool, holder, device="cuda1")
    [notice] = reply["notices"]
    assert f"CUDA was started in process {holder.pid} before the lease" in notice
    wait_for(lambda: pool.lease(lease["id"])["notices"] == [notice], "the notice")


def test_use_without_a_lease_is_found_named_and_subtracted(
    pool: PoolProcess, gpus: FakeGPUs, holder: CUDAHolder
) -> None:
    before = device(pool, "cuda1")["free_memory_bytes"]
    with CUDAHolder(pool.environment) as stranger:
        stranger.init(CUDA_VISIBLE_DEVICES=gpus.uuid(1))
        stranger.alloc(30 * GIB)
        attached(pool, holder, 50, device="cuda0")  # while somebody holds something, all is looked at often
        seen = wait_for(lambda: on(pool, "cuda1").get(stranger.pid), "the stranger")
        assert seen["memory_bytes"] >= 30 * GIB
        assert seen["name"].endswith("cuda_holder.py")
        wait_for(
            lambda: device(pool, "cuda1")["free_memory_bytes"] <= before - 30 * GIB, "it to be subtracted"
        )
        assert f"{stranger.pid} (" in str(pool.get(f"{API_PREFIX}/pool").body["warnings"])
    wait_for(lambda: device(pool, "cuda1")["unmanaged"] == [], "it to be gone")


@pytest.mark.slow
@pytest.mark.beside
def test_a_failing_gpu_takes_no_leases_tells_its_holders_and_comes_back(
    pool: PoolProcess, gpus: FakeGPUs, holder: CUDAHolder
) -> None:
    lease, _ = attached(pool, holder, device="cuda0")
    holder.init()
    gpus.event(0, 79)  # it has fallen off the bus
    wait_for(lambda: device(pool, "cuda0")["health"] == "failed", "it to fail", PATIENCE)
    assert "79" in device(pool, "cuda0")["health_reason"]
    assert not device(pool, "cuda0")["offered"]
    assert pool.lease(lease["id"])["state"] == "active"
    wait_for(lambda: "cuda0" in str(pool.lease(lease["id"])["notices"]), "its holder to be told", PATIENCE)
    refused = pool.ask(
        "POST", f"{API_PREFIX}/leases", {"compute_milli": 250, "device": "cuda0", "wait_seconds": 0}
    )
    assert refused.status != 201
    wait_for(lambda: device(pool, "cuda0")["offered"], "it to come back by itself", 90)


@pytest.mark.slow
@pytest.mark.beside
def test_a_holder_is_adopted_by_the_next_agent_with_its_proof(pool: PoolProcess, holder: CUDAHolder) -> None:
    lease, _ = attached(pool, holder, device="cuda0")
    holder.init()
    wait_for(lambda: isolation(pool, lease["id"])["memory"][2] == "read-back", "the proof")
    pool.kill_agent()
    pool.wait_joined()
    wait_for(lambda: pool.lease(lease["id"])["state"] == "active", "the lease to go on")
    assert isolation(pool, lease["id"])["memory"][2] == "read-back"
    assert device(pool, "cuda0")["unmanaged"] == []


@pytest.mark.slow
@pytest.mark.beside
def test_with_mps_a_share_is_capped_and_cuda_without_it_is_found_out(tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1)
    with FakeMPS(tmp_path / "mps") as mps:
        environment = {**world(tmp_path), **gpus.environment(), "PATH": mps.environment()["PATH"]}
        environment = cuda_environment(gpus.state, environment)
        with running_pool(environment) as pool:
            assert device(pool, "cuda0")["sharing"] == "mps"
            with CUDAHolder(environment) as first, CUDAHolder(environment) as second:
                lease, reply = attached(pool, first)
                assert reply["environment"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
                assert first.init()["error"] == ""
                wait_for(lambda: isolation(pool, lease["id"])["compute"][2] != "pending", "the proof")
                assert isolation(pool, lease["id"])["compute"][0] == "soft"
                assert first.alloc(60 * GIB)["error"] == "CUDA_ERROR_OUT_OF_MEMORY"

                other, _ = attached(pool, second)
                second.init(CUDA_MPS_PIPE_DIRECTORY="/nonexistent")
                wait_for(lambda: isolation(pool, other["id"])["compute"][0] == "none", "the lie to be found")
                for each in (lease, other):
                    pool.release(each["id"])
                    pool.wait_state(each["id"], "ended")
        wait_for(lambda: mps.processes() == [], "no daemon to be left")
