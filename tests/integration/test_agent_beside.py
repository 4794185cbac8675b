"""An agent limits the node beside a share of a GPU: through the whole agent, on a fake driver."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Resource, Strength
from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyOrder,
    DetachedReport,
    DetachOrder,
    SampleReport,
)
from tests.support.fake_gpus import FakeGPUs
from tests.support.lifecycles import limits_of
from tests.support.node_bench import node_bench
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")

BESIDE = {Resource.HOST_COMPUTE, Resource.HOST_MEMORY, Resource.PROCESSES}


@pytest.mark.asyncio
async def test_a_holder_of_a_gpu_share_is_limited_on_the_node_too_and_is_free_again_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FakeGPUs(tmp_path / "gpus").a100(2).environment().items():
        monkeypatch.setenv(name, value)
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        gpu = next(it.id for it in bench.hello.devices if it.kind is DeviceKind.CUDA)
        holder = await bench.holder()
        before = limits_of(holder.pid)

        reply = await holder.attach(bench.socket, await bench.prepare(device=gpu))

        assert reply.error is None, reply.error
        docs = {doc.resource: doc for doc in reply.isolation}
        assert set(docs) == {Resource.MEMORY, Resource.COMPUTE, *BESIDE}
        assert docs[Resource.HOST_COMPUTE].strength is Strength.SOFT
        assert reply.threads is not None
        assert limits_of(holder.pid) != before
        await until(
            lambda: any(
                lease.host_memory_bytes for report in bench.all(SampleReport) for lease in report.leases
            ),
            what="a sample says how much of the node's memory it uses",
        )

        shares = [bench.share(compute_milli=1000, device=gpu)]
        order = ApplyOrder(lease_id=bench.lease_id, generation=1, shares=shares)
        await bench.control.send(bench.node_id, [order])
        applied = await bench.told(AppliedReport)
        larger = {doc.resource: doc for doc in applied.isolation}
        assert larger[Resource.HOST_MEMORY].limit != docs[Resource.HOST_MEMORY].limit

        await bench.control.send(bench.node_id, [DetachOrder(lease_id=bench.lease_id, generation=1)])
        await bench.told(DetachedReport)
        assert limits_of(holder.pid) == before
