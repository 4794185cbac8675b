"""An agent exceeds the limits of idle devices by itself, and leases say what that showed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.backends.nvidia.rungs.base import RungName
from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook, ProbeResult
from jupyter_gpupool.protocol.paths import data_dir
from tests.support.fake_cuda import CUDAHolder
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS
from tests.support.pool_process import PoolProcess, running_pool, wait_for

pytestmark = pytest.mark.slow

GIB = 2**30
#: The agent is left alone for five seconds after its start.
PATIENCE = 40.0


@contextmanager
def pool_on(gpus: FakeGPUs, folder: Path) -> Iterator[PoolProcess]:
    """Run a pool on a machine with these GPUs and MPS."""
    with FakeMPS(folder) as mps:
        path = {"PATH": mps.environment()["PATH"]}
        with running_pool({**gpus.environment(), **path}) as pool:
            yield pool


def probed(uuid: str) -> ProbeResult:
    """Wait until the agent has exceeded what MPS limits on a device."""
    book = ProbeBook(data_dir() / PROBES_FILE)
    return wait_for(
        lambda: book.result(uuid, "615.71", RungName.MPS.value), "a result of the probe", PATIENCE
    )


def said(pool: PoolProcess) -> dict[str, dict[str, Any]]:
    """Take a lease, use CUDA under it, and return what the lease says by resource when that was seen."""
    with CUDAHolder(pool.environment) as holder:
        doc = pool.request(500, kind="cuda")
        holder.do("attach", path=doc["attach"]["socket"], ticket=doc["attach"]["ticket"])
        assert not holder.init()["error"]

        def settled() -> dict[str, dict[str, Any]] | None:
            docs = {each["resource"]: each for each in pool.lease(doc["id"])["isolation"]}
            return docs if docs and docs["memory"]["verified"] != "pending" else None

        found = wait_for(settled, "the lease to say what is in force", PATIENCE)
        pool.release(doc["id"])
    return found


def test_a_lease_says_probed_where_the_mechanism_was_exceeded_and_held(tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1)
    with pool_on(gpus, tmp_path / "mps") as pool:
        assert probed(gpus.uuid(0)).ok
        docs = said(pool)
    assert {docs["memory"]["verified"], docs["compute"]["verified"]} == {"probed"}


def test_a_lease_says_none_where_the_probe_went_past_the_limit(tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(1).set("cuda.mps_limits", 0)
    with pool_on(gpus, tmp_path / "mps") as pool:
        assert not probed(gpus.uuid(0)).ok
        docs = said(pool)
    assert (docs["memory"]["strength"], docs["compute"]["strength"]) == ("none", "none")
    assert "A probe on" in docs["memory"]["note"]
    assert "could be allocated past a limit" in docs["memory"]["note"]


def test_a_device_that_somebody_uses_is_not_probed_until_it_is_idle(tmp_path: Path) -> None:
    gpus = FakeGPUs(tmp_path / "gpus").a100(2)
    book = ProbeBook(data_dir() / PROBES_FILE)
    with CUDAHolder({**gpus.environment(), "CUDA_VISIBLE_DEVICES": gpus.uuid(0)}) as somebody:
        assert not somebody.init()["error"]
        with pool_on(gpus, tmp_path / "mps"):
            assert probed(gpus.uuid(1)).ok
            assert book.result(gpus.uuid(0), "615.71", RungName.MPS.value) is None
