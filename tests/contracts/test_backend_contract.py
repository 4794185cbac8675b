"""What every backend keeps to, whatever its devices are."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.backends.base import BackendError, HolderGone, ProcessMark
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder
from jupyter_gpupool.protocol.names import ENV_LEASE
from tests.contracts.worlds import World, recorded
from tests.support.obedient import Child


def test_devices_have_distinct_names_and_ids_that_stay(world: World) -> None:
    devices = world.backend.discover()
    assert devices
    assert len({device.id for device in devices}) == len({device.name for device in devices}) == len(devices)
    for device in devices:
        assert device.memory_bytes > 0
        assert device.compute_units >= 1
        assert device.model
    assert [device.id for device in world.next_agent().backend.discover()] == [each.id for each in devices]


def test_both_resources_are_described_and_nothing_is_called_hard_that_is_not(
    world: World, child: Child
) -> None:
    attachment = world.attach(child.mark)
    described = {doc.resource: doc for doc in attachment.isolation}
    assert set(described) == {Resource.MEMORY, Resource.COMPUTE}
    for doc in described.values():
        assert doc.mechanism
        assert doc.limit
        # what a GPU limits is in force from the holder's first CUDA context on
        assert doc.verified is Verified.READ_BACK or world.name == "nvidia"
        # the child runs as this process's own user, which could undo whatever this process sets
        bare = world.backend.discover()[0].emulated or doc.mechanism == "time-slicing"
        assert doc.strength is (Strength.NONE if bare else Strength.SOFT)
    assert attachment.environment[ENV_LEASE] == attachment.lease_id
    world.backend.detach(attachment)


def test_a_process_that_ended_cannot_be_attached(world: World, child: Child) -> None:
    child.end()
    with pytest.raises(HolderGone, match=str(child.pid)):
        world.attach(child.mark)


def test_another_process_with_a_reused_pid_cannot_be_attached(world: World, child: Child) -> None:
    earlier = ProcessMark(pid=child.pid, start_ticks=child.mark.start_ticks - 1)
    with pytest.raises(HolderGone):
        world.attach(earlier)
    assert child("answer = 'untouched'") == "untouched"


def test_a_device_of_another_node_is_refused(world: World, child: Child) -> None:
    share = ShareOrder(device_id="GPU-of-somebody-else", compute_milli=250, memory_bytes=2**30)
    with pytest.raises(BackendError, match="GPU-of-somebody-else"):
        world.backend.attach("lease_1", share, child.mark)


def test_an_attachment_lives_on_in_its_record(world: World, child: Child) -> None:
    attachment = recorded(world.attach(child.mark, 250, 300))
    agent = world.next_agent()
    sample = agent.backend.watch(attachment)
    assert sample.lease_id == attachment.lease_id
    assert sample.processes == 1
    assert sample.memory_used_bytes is not None
    larger = agent.backend.resize(recorded(attachment), agent.share(500, 600))
    assert larger.share.memory_bytes == 600 * 2**20
    assert larger.share.compute_milli == 500
    assert larger.lease_id == attachment.lease_id
    third = agent.next_agent()
    third.backend.detach(recorded(larger))
    third.backend.detach(recorded(larger))


def test_resize_leaves_the_first_attachment_as_it_was(world: World, child: Child) -> None:
    attachment = world.attach(child.mark, 250, 300)
    larger = world.backend.resize(attachment, world.share(750, 500))
    assert attachment.share.compute_milli == 250
    assert larger.isolation != attachment.isolation
    world.backend.detach(larger)


def test_a_holder_that_ended_can_be_watched_and_detached(world: World, child: Child) -> None:
    attachment = world.attach(child.mark)
    child.end()
    sample = world.backend.watch(attachment)
    assert (sample.processes, sample.memory_used_bytes) == (0, None)
    world.backend.detach(attachment)
    world.backend.detach(attachment)


def test_every_device_is_sampled_and_readings_are_possible(world: World, child: Child) -> None:
    devices: list[DeviceReport] = world.backend.discover()
    attachment = world.attach(child.mark)
    world.backend.watch(attachment)
    for _ in range(2):
        samples = world.backend.sample([attachment])
        assert [sample.device_id for sample in samples] == [device.id for device in devices]
        for sample in samples:
            readings = sample.readings
            assert readings.utilization_percent is None or 0 <= readings.utilization_percent <= 100
            assert readings.memory_used_bytes is None or readings.memory_used_bytes >= 0
            assert readings.temperature_celsius is None or -50 < readings.temperature_celsius < 150
            assert readings.power_watts is None or readings.power_watts > 0
            assert sample.unmanaged_bytes is None or sample.unmanaged_bytes >= 0
    world.backend.detach(attachment)


def test_nothing_is_done_to_the_agent_itself(world: World, child: Child) -> None:
    before = (os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0))
    attachment = world.attach(child.mark)
    world.backend.watch(attachment)
    world.backend.detach(attachment)
    assert (os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)) == before
