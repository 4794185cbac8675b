"""The backend of GPUs on a fake driver: devices, attaching, watching, and letting go."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import (
    Attachment,
    BackendError,
    Demand,
    HolderTooLarge,
    LimitNotInForce,
    ProcessMark,
)
from jupyter_gpupool.backends.nvidia.cuda_started import OtherDevice
from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.rungs.mps import MPSRung
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rules import Action, NodeRules, Sharing, SharingRule
from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.paths import make_runtime_dir
from tests.support.fake_gpus import FakeGPUs
from tests.support.fake_mps import FakeMPS
from tests.support.gpu_bench import GIB, LEASE, GPUBench, mark, share, told
from tests.support.waiting import wait_for

CAPS = ("soft", "framework caps, use watched")
SLICED = ("none", "time-slicing", "read-back")

Start = Callable[..., GPUBench]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a backend on fake GPUs: ``start("a100", 2, rules=…)``."""
    with ExitStack() as stack:

        def begin(kind: str, *args: object, rules: NodeRules | None = None, **state: object) -> GPUBench:
            gpus = FakeGPUs(tmp_path)
            getattr(gpus, kind)(*args)
            for key, value in state.items():
                gpus.set(f"gpu0.{key}", value)
            bench = GPUBench(stack.enter_context(gpus), rules)
            stack.callback(bench.close)
            return bench

        yield begin


Family = Callable[[], tuple[ProcessMark, int]]


@pytest.fixture
def family() -> Iterator[Family]:
    """Return a function that starts a process with a child: its mark, and the child's pid."""
    started: list[subprocess.Popen[str]] = []

    def begin() -> tuple[ProcessMark, int]:
        command = ["sh", "-c", "sleep 300 & echo $!; wait"]
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(parent)
        assert parent.stdout is not None
        stat = ProcFS().stat(parent.pid)
        assert stat is not None
        return stat.mark, int(parent.stdout.readline())

    yield begin
    for parent in started:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate(timeout=10)


# --- devices ------------------------------------------------------------------------------------------


def test_gpus_are_reported_with_what_a_new_lease_gets(start: Start) -> None:
    first, second = start("a100", 2).backend.discover()
    assert (first.name, second.name) == ("cuda0", "cuda1")
    assert first.id.startswith("GPU-")
    assert (first.whole_only, first.one_owner, first.sharing) == (False, False, "timeslice")
    assert told(first.isolation) == {"memory": (*CAPS, "pending"), "compute": SLICED}
    assert first.isolation[0].limit == "its share of the memory"
    assert "a fraction does not buy compute" in first.isolation[1].note
    assert "no version 2 control groups are mounted" in first.isolation[0].note


def test_a_gpu_in_mig_mode_is_no_device_but_its_instances_are_and_whole_only(start: Start) -> None:
    bench = start("h100_mig")
    reports = bench.backend.discover()
    assert [report.name for report in reports] == ["cuda0-mig0", "cuda0-mig1", "cuda0-mig2"]
    assert all(report.whole_only and report.sharing == "mig" for report in reports)
    assert {report.parent_id for report in reports} == {bench.gpus.uuid(0)}
    assert [report.compute_units for report in reports] == [60, 32, 16]
    assert told(reports[0].isolation)["memory"][1] == "MIG instance"
    assert len(bench.backend.sample([])) == 4  # the GPU itself has telemetry


def test_a_machine_without_a_driver_has_no_gpus_and_nothing_runs() -> None:
    from jupyter_gpupool.backends.registry import make_nvidia

    backend = make_nvidia(NodeRules(), library="/nonexistent/libnvidia-ml.so.1")
    assert backend.discover() == []
    assert backend.sample([]) == []
    backend.close()


def test_a_model_that_is_shared_by_mig_only_is_leased_whole_while_it_is_not_in_mig_mode(start: Start) -> None:
    rules = NodeRules(sharing=(SharingRule(model="*a100*", sharing=Sharing.MIG),))
    [report] = start("a100", 1, rules=rules).backend.discover()
    assert (report.whole_only, report.sharing) == (True, "exclusive")
    assert "shared by MIG only" in report.isolation[0].note


def test_a_gpu_without_memory_of_its_own_says_so_and_leaves_some_to_the_system(start: Start) -> None:
    bench = start("gb10")
    [report] = bench.backend.discover()
    assert 0 < report.memory_bytes < bench.backend.gpu(report.id).memory_bytes
    assert "its memory is the system's" in report.isolation[0].note
    with bench.holder() as holder:
        attachment = bench.attach(holder, 250, report.memory_bytes // 4, report.id)
        assert any("its memory is the system's" in notice for notice in attachment.notices)


def test_where_the_driver_does_not_say_what_a_process_uses_nobody_claims_to_watch(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        attachment = bench.attach(holder)
        bench.gpus.processes("gpu0", (holder.pid, None))
        assert bench.watch(attachment).memory_used_bytes is None
        memory = attachment.isolation[0]
        assert (memory.mechanism, memory.verified) == ("framework caps", Verified.PENDING)
        assert "Nobody can watch its use here: the driver does not say what a process uses" in memory.note


def test_a_gpu_that_is_lost_stays_listed_as_failed_and_comes_back(start: Start) -> None:
    bench = start("a100", 2)
    bench.gpus.lose(0)
    bench.sampler.refresh()
    lost, well = bench.backend.discover()
    assert (lost.name, lost.health, well.health) == ("cuda0", Health.FAILED, Health.HEALTHY)
    assert lost.health_reason


def test_a_gpu_that_no_process_may_use_takes_no_leases_and_says_what_helps(start: Start) -> None:
    [report] = start("a100", 1, compute_mode="prohibited").backend.discover()
    assert report.health is Health.FAILED
    assert "nvidia-smi -c DEFAULT" in report.health_reason


# --- attaching ----------------------------------------------------------------------------------------


def test_a_lease_is_pending_until_cuda_was_seen_and_then_read_back(start: Start) -> None:
    bench = start("a100", 2)
    with bench.holder() as holder:
        attachment = bench.attach(holder)
        uuid = bench.gpus.uuid(0)
        assert attachment.environment["CUDA_VISIBLE_DEVICES"] == uuid
        assert attachment.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert attachment.environment["PYTORCH_CUDA_ALLOC_CONF"].startswith("per_process_memory_fraction:0.2")
        [cap] = attachment.caps
        assert cap.memory_bytes == 20 * GIB - GIB // 2
        assert told(attachment.isolation) == {"memory": (*CAPS, "pending"), "compute": SLICED}
        bench.watch(attachment)
        assert told(attachment.isolation)["memory"] == (*CAPS, "pending")
        assert holder.init(**attachment.environment)["error"] == ""
        sample = bench.watch(attachment)
        assert told(attachment.isolation)["memory"] == (*CAPS, "read-back")
        assert sample.memory_used_bytes
        assert sample.notices == []
        bench.backend.detach(attachment)
        bench.backend.detach(attachment)


def test_how_to_undo_is_noted_before_anything_is_changed(start: Start) -> None:
    bench = start("a100", 1)
    noted: list[Attachment] = []
    with bench.holder() as holder:
        bench.backend.attach(LEASE, share(bench.gpus.uuid(0)), mark(holder), noted.append)
        [first] = noted
        assert first.lease_id == LEASE
        bench.backend.detach(first)


def test_a_mig_instance_is_hardware_and_hard_only_where_other_devices_are_closed(start: Start) -> None:
    bench = start("h100_mig")
    [first, *_] = bench.backend.discover()
    with bench.holder() as holder:
        attachment = bench.attach(holder, 1000, first.memory_bytes, first.id)
        memory, compute = attachment.isolation
        assert memory.mechanism == compute.mechanism == "MIG instance"
        assert (memory.strength, memory.verified) == (Strength.SOFT, Verified.PENDING)
        assert "It could use another device by changing CUDA_VISIBLE_DEVICES" in memory.note
        assert compute.limit == "60 multiprocessors"
        assert attachment.environment["CUDA_VISIBLE_DEVICES"].startswith("MIG-")
        assert attachment.caps == []
        holder.init(**attachment.environment)
        bench.watch(attachment)
        assert {doc.verified for doc in attachment.isolation} == {Verified.READ_BACK}


def test_cuda_on_another_device_than_the_leases_leaves_nothing_in_force(start: Start) -> None:
    bench = start("h100_mig")
    first, second, _ = bench.backend.discover()
    with bench.holder() as holder:
        attachment = bench.attach(holder, 1000, first.memory_bytes, first.id)
        holder.init(CUDA_VISIBLE_DEVICES=second.id)
        sample = bench.watch(attachment)
        assert {doc.strength for doc in attachment.isolation} == {Strength.NONE}
        assert "runs on cuda0-mig1" in attachment.isolation[0].note
        assert any("computes on cuda0-mig1, which is not in this lease" in text for text in sample.notices)


def test_a_node_that_requires_hard_memory_refuses_and_leaves_nothing(start: Start) -> None:
    rules = NodeRules(require_isolation=((Resource.MEMORY, Strength.HARD),))
    bench = start("a100", 1, rules=rules)
    with bench.holder() as holder, pytest.raises(LimitNotInForce) as refused:
        bench.attach(holder)
    assert "requires memory:hard, and the lease has memory:soft (framework caps, use watched)" in str(
        refused.value
    )
    assert "PoolAgent.require_isolation" in str(refused.value)


# --- CUDA that was started before ---------------------------------------------------------------------


def test_a_holder_with_cuda_started_is_told_what_cannot_be_applied_any_more(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        holder.init()
        bench.sampler.refresh()
        attachment = bench.attach(holder)
        [notice] = attachment.notices
        assert f"CUDA was started in process {holder.pid} before the lease" in notice
        assert "restart the kernel" in notice
        assert bench.watch(attachment).notices == [notice]


def test_a_holder_that_computes_on_another_device_is_refused_with_the_next_step(start: Start) -> None:
    bench = start("a100", 2)
    with bench.holder() as holder:
        holder.init(CUDA_VISIBLE_DEVICES=bench.gpus.uuid(1))
        with pytest.raises(OtherDevice) as refused:
            bench.attach(holder)
    assert "computes on cuda1, and the lease is on cuda0" in str(refused.value)
    assert "request --device cuda1" in refused.value.hint


def test_a_holder_that_is_larger_than_its_share_is_refused_with_both_numbers(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        holder.init()
        holder.alloc(3 * GIB)
        with pytest.raises(
            HolderTooLarge, match=r"already use 3\.\d GiB of cuda0, more than the share of 2.0 GiB"
        ):
            bench.attach(holder, 100, 2 * GIB)


# --- while it is held ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "demand"),
    [(Action.WARN, None), (Action.INTERRUPT, Demand.INTERRUPT), (Action.END, Demand.END)],
)
def test_who_exceeds_a_share_is_warned_and_after_the_grace_it_is_acted(
    start: Start, action: Action, demand: Demand | None
) -> None:
    bench = start("a100", 1, rules=NodeRules(over_limit=action, grace_seconds=10))
    with bench.holder() as holder:
        attachment = bench.attach(holder, 100, 4 * GIB)
        holder.init(**attachment.environment)
        holder.alloc(int(3.7 * GIB))
        [warning] = bench.watch(attachment).notices
        assert "of its 4.0 GiB on cuda0 (9" in warning
        holder.alloc(GIB)
        [over] = bench.watch(attachment).notices
        assert "more than its share of 4.0 GiB" in over
        assert bench.backend.demand(attachment) is None
        bench.watch(attachment, seconds=11)
        assert bench.backend.demand(attachment) is demand
        assert bench.backend.demand(attachment) is None


def test_children_count_to_their_holder(start: Start, family: Family) -> None:
    bench = start("a100", 1)
    uuid = bench.gpus.uuid(0)
    parent, child = family()
    attachment = bench.backend.attach(LEASE, share(uuid), parent)
    bench.gpus.use(uuid, child, 5 * GIB)
    assert bench.watch(attachment).memory_used_bytes == 5 * GIB
    [sample] = bench.backend.sample([attachment])
    assert (sample.unmanaged, sample.unmanaged_bytes) == ([], 0)


def test_a_lease_is_resized_while_it_computes(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        attachment = bench.attach(holder)
        holder.init(**attachment.environment)
        holder.alloc(10 * GIB)
        bench.sampler.refresh()
        larger = bench.backend.resize(attachment, share(bench.gpus.uuid(0), 500, 40 * GIB))
        assert larger.caps[0].memory_bytes == 40 * GIB - GIB // 2
        assert larger.isolation[0].limit == "40.0 GiB"
        with pytest.raises(HolderTooLarge):
            bench.backend.resize(larger, share(bench.gpus.uuid(0), 50, 4 * GIB))
        whole = bench.backend.resize(larger, share(bench.gpus.uuid(0), 1000, 80 * GIB))
        assert whole.isolation[1].mechanism == "the whole device is the lease's"
        bench.backend.detach(whole)


def test_a_whole_gpu_can_become_a_share_with_caps_that_hold_from_the_start(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        whole = bench.attach(holder, 1000, 80 * GIB)
        assert whole.isolation[0].mechanism == "the whole device is the lease's"
        assert whole.caps[0].memory_bytes == 80 * GIB - GIB // 2
        holder.init(**whole.environment)
        part = bench.backend.resize(whole, share(bench.gpus.uuid(0), 250, 20 * GIB))
        assert told(part.isolation)["memory"][:2] == CAPS
        assert part.caps[0].memory_bytes == 20 * GIB - GIB // 2


def test_a_mig_instance_cannot_be_resized(start: Start) -> None:
    bench = start("h100_mig")
    first = bench.backend.discover()[0]
    with bench.holder() as holder:
        attachment = bench.attach(holder, 1000, first.memory_bytes, first.id)
        with pytest.raises(BackendError, match="leased whole or not at all"):
            bench.backend.resize(attachment, share(first.id, 500, GIB))


def test_a_lease_goes_on_from_its_record_in_another_backend(start: Start) -> None:
    bench = start("a100", 1)
    with bench.holder() as holder:
        attachment = bench.attach(holder)
        holder.init(**attachment.environment)
        bench.watch(attachment)
        other = GPUBench(bench.gpus)
        try:
            assert other.watch(attachment).memory_used_bytes
            other.backend.detach(attachment)
        finally:
            other.close()


# --- rules --------------------------------------------------------------------------------------------


def test_only_listed_frameworks_may_time_slice(start: Start) -> None:
    rule = SharingRule(model="*A100*", sharing=Sharing.AUTO, frameworks=(("pytorch", "1.7"),))
    bench = start("a100", 1, rules=NodeRules(sharing=(rule,)))
    part, whole = share(bench.gpus.uuid(0)), share(bench.gpus.uuid(0), 1000, 80 * GIB)
    bench.backend.admit(part, {"pytorch": "2.13.0"})
    bench.backend.admit(whole, {})
    with pytest.raises(
        BackendError, match=r"only kernels with pytorch 1\.7 or newer do; this one has pytorch 1\.6"
    ):
        bench.backend.admit(part, {"pytorch": "1.6.0"})
    with pytest.raises(BackendError, match="this one has none"):
        bench.backend.admit(part, {"tensorflow": "2.19"})


def test_who_uses_a_gpu_without_a_lease_is_ended_where_that_is_wanted_and_holders_are_not(
    start: Start,
) -> None:
    bench = start("a100", 2, rules=NodeRules(unmanaged=Action.END, grace_seconds=5))
    with bench.holder() as holder, bench.holder() as stranger:
        attachment = bench.attach(holder)
        holder.init(**attachment.environment)
        stranger.init(CUDA_VISIBLE_DEVICES=bench.gpus.uuid(0))
        for _ in range(2):
            bench.clock.now += 6
            bench.sampler.refresh()
            first, second = bench.backend.sample([attachment])
        assert [doc.pid for doc in first.unmanaged] == [stranger.pid]
        assert first.unmanaged_bytes
        assert (second.unmanaged, second.unmanaged_bytes) == ([], 0)
        assert stranger.process.wait(10) == -signal.SIGTERM
        assert holder.process.poll() is None


def test_with_mps_a_gpu_has_one_owner_at_a_time_and_so_many_leases_as_a_server_has_clients(
    tmp_path: Path,
) -> None:
    with FakeGPUs(tmp_path / "gpus").a100(1) as gpus, FakeMPS(tmp_path / "mps") as mps:
        rules = NodeRules(mps_control=str(mps.program))
        control, nvml = MPSControl(rules.mps_control), NVML(str(gpus.library))
        rung = MPSRung(control, make_runtime_dir(), rules, nvml)
        bench = GPUBench(gpus, rules, more=[rung])
        [report] = bench.backend.discover()
        assert (report.sharing, report.one_owner, report.most_leases) == ("mps", True, 60)
        with bench.holder() as holder:
            holder.init()
            attachment = bench.attach(holder)
            assert "the limits of MPS cannot reach it" in attachment.notices[0]
            assert told(attachment.isolation)["compute"][:2] == ("none", "time-slicing")
            assert "CUDA has started in the process already" in attachment.isolation[1].note
            assert "CUDA_MPS_PIPE_DIRECTORY" not in attachment.environment
            bench.backend.detach(attachment)
        bench.close()


def test_one_process_of_a_lease_is_taken_off_the_gpu_and_the_others_go_on(tmp_path: Path) -> None:
    with FakeGPUs(tmp_path / "gpus").a100(1) as gpus, FakeMPS(tmp_path / "mps") as mps:
        rules = NodeRules(mps_control=str(mps.program))
        rung = MPSRung(MPSControl(rules.mps_control), make_runtime_dir(), rules, NVML(str(gpus.library)))
        bench = GPUBench(gpus, rules, more=[rung])
        server, stranger = mps.process(parent=True), mps.process()
        attachment = bench.backend.attach(LEASE, share(gpus.uuid(0)), server.mark())
        pipes = attachment.environment["CUDA_MPS_PIPE_DIRECTORY"]
        for client in (server, stranger):
            client.connect(pipes, gpus.uuid(0))

        def terminated() -> list[str]:
            return [call.split()[-1] for call in mps.calls() if "terminate_client" in call]

        daemon = Path(pipes, "fake-daemon")
        for pid in (server.child, stranger.pid):
            wait_for(lambda pid=pid: f"accepted {pid}\n" in daemon.read_text(), "the client to be served")
        bench.backend.quiesce(attachment, stranger.pid)
        assert terminated() == [], "a process that is not of this lease"
        bench.backend.quiesce(attachment, server.child)
        assert terminated() == [str(server.child)]
        for client in (server, stranger):
            client.end()
        bench.backend.detach(attachment)
        bench.close()
