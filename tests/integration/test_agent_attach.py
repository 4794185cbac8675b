"""An agent in its own process attaches, resizes, detaches and watches real processes."""

from __future__ import annotations

import pytest

from jupyter_gpupool.protocol.messages import (
    AppliedReport,
    ApplyOrder,
    ApplyRefusedReport,
    AttachedReport,
    AttachRefusedReport,
    DetachedReport,
    DetachOrder,
    ExitedReport,
    HoldersReport,
    ReportOrder,
    SampleReport,
    StopOrder,
)
from tests.support.node_bench import node_bench
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    "not __import__('sys').platform.startswith('linux')", reason="agents run on Linux"
)


@pytest.mark.asyncio
async def test_a_running_process_comes_under_its_share_and_out_of_it_again() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        holder = await bench.holder()
        before = await holder.ask("limits")

        reply = await holder.attach(bench.socket, await bench.prepare())

        assert reply.error is None
        assert reply.lease_id == "lease_1"
        assert {doc.resource.value for doc in reply.isolation} == {"memory", "compute"}
        attached = await bench.told(AttachedReport)
        assert (attached.pid, attached.generation) == (holder.pid, 1)
        assert await holder.ask("limits") != before
        assert (bench.runtime / "holders" / "lease_1.json").stat().st_mode & 0o777 == 0o600

        await bench.control.send(bench.node_id, [DetachOrder(lease_id="lease_1", generation=1)])
        await bench.told(DetachedReport)
        assert await holder.ask("limits") == before
        assert not list((bench.runtime / "holders").iterdir())
