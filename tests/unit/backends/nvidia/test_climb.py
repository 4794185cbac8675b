"""Putting rungs in force together or not at all, whatever fails at which moment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.backends.base import BackendError, LimitNotInForce, ProcessMark
from jupyter_gpupool.backends.nvidia.climb import Climber, merged
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Mode, Plan
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.backends.nvidia.undo import NvidiaUndo, begin
from jupyter_gpupool.backends.probebook import PROBES_FILE, ProbeBook, probed_now
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder
from tests.support.gpu_bench import GIB, LEASE, Clock, share

A100 = GPU(
    uuid="GPU-1",
    name="cuda0",
    model="NVIDIA A100-SXM4-80GB",
    memory_bytes=80 * GIB,
    multiprocessors=108,
    pci_bus_id="00000000:3B:00.0",
    driver="615.71",
)
BOTH = Plan(mode=Mode.MPS, memory=RungName.DRIVER, compute=RungName.MPS)
ALONE = Plan(mode=Mode.MPS, memory=RungName.DRIVER, compute=None)


class World:
    """What is in force, by rung: the thousandths; and what fails."""

    def __init__(self) -> None:
        self.force: dict[RungName, int] = {}
        self.fails: set[tuple[RungName, str]] = set()
        self.asked = 0
        self.clock = Clock()
        self.climber = Climber(
            [Mechanism(self, RungName.DRIVER), Mechanism(self, RungName.MPS)], clock=self.clock
        )

    def check(self, rung: RungName, what: str) -> None:
        if (rung, what) in self.fails:
            raise LimitNotInForce(f"{rung.value} cannot {what}.")


class Mechanism(Rung):
    """A mechanism that only remembers."""

    def __init__(self, world: World, name: RungName) -> None:
        self.world, self.name = world, name

    def impossible(self, gpu: GPU) -> str:
        self.world.asked += 1
        return ""

    def refused(self, site: Site) -> str:
        return "CUDA has started" if site.cuda_started else ""

    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        return self._docs(share, Verified.PENDING)

    def intent(self, site: Site) -> msgspec.Raw:
        return msgspec.Raw(b'{"begun":true}')

    def put(self, site: Site) -> Put:
        self.world.check(self.name, "put")
        self.world.force[self.name] = site.share.compute_milli
        return Put(environment={self.name.name: "1"}, notices=[f"{self.name.value} is put"])

    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        return self._docs(site.share, Verified.READ_BACK)

    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        self.world.check(self.name, f"resize to {site.share.compute_milli}")
        self.world.force[self.name] = site.share.compute_milli
        return Put()

    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        self.world.check(self.name, "take away")
        self.world.force.pop(self.name, None)

    def _docs(self, share: ShareOrder, verified: Verified) -> list[IsolationDoc]:
        return [
            IsolationDoc(
                resource=resource,
                strength=Strength.SOFT,
                mechanism=self.name.value,
                limit=str(share.compute_milli),
                verified=verified,
            )
            for resource in (Resource.MEMORY, Resource.COMPUTE)
        ]


def site(milli: int = 250, *, started: bool = False) -> Site:
    mark = ProcessMark(pid=4711, start_ticks=1)
    return Site(
        lease_id=LEASE,
        gpu=A100,
        share=share("GPU-1", milli),
        holder=mark,
        uid=1000,
        cuda_started=started,
    )


def put(world: World, plan: Plan = BOTH) -> NvidiaUndo:
    undo = begin(plan, 1000, 0)
    world.climber.intend(undo, site())
    world.climber.put(undo, site())
    return undo


def test_all_rungs_are_put_and_each_answers_for_its_resource() -> None:
    world = World()
    undo = put(world)
    assert world.force == {RungName.DRIVER: 250, RungName.MPS: 250}
    memory, compute = world.climber.look(undo, site())
    assert (memory.mechanism, compute.mechanism) == ("driver", "mps")
    world.climber.take_away(undo, LEASE)
    assert world.force == {}


@pytest.mark.parametrize("rung", [RungName.DRIVER, RungName.MPS])
def test_when_one_cannot_be_put_none_is(rung: RungName) -> None:
    world = World()
    world.fails = {(rung, "put")}
    with pytest.raises(LimitNotInForce, match=f"{rung.value} cannot put"):
        put(world)
    assert world.force == {}


def test_what_is_intended_is_enough_to_undo_what_was_begun() -> None:
    world = World()
    undo = begin(BOTH, 1000, 0)
    world.climber.intend(undo, site())
    assert list(undo.rungs) == [RungName.DRIVER, RungName.MPS]
    world.force[RungName.DRIVER] = 250  # an agent that was killed in between
    world.climber.take_away(undo, LEASE)
    assert world.force == {}


def test_a_failed_undo_does_not_keep_the_rest_and_is_told() -> None:
    world = World()
    undo = put(world)
    world.fails = {(RungName.MPS, "take away")}
    with pytest.raises(BackendError, match="mps cannot take away"):
        world.climber.take_away(undo, LEASE)
    assert world.force == {RungName.MPS: 250}


@pytest.mark.parametrize("rung", [RungName.DRIVER, RungName.MPS])
def test_a_resize_that_fails_leaves_the_old_share_in_force(rung: RungName) -> None:
    world = World()
    undo = put(world)
    world.fails = {(rung, "resize to 500")}
    with pytest.raises(LimitNotInForce):
        world.climber.resize(undo, site(), site(500), BOTH)
    assert world.force == {RungName.DRIVER: 250, RungName.MPS: 250}
    assert undo.plan == BOTH


def test_a_resize_to_another_plan_puts_what_is_new_and_takes_away_what_is_not_needed() -> None:
    world = World()
    undo = put(world, ALONE)
    world.climber.resize(undo, site(), site(500), BOTH)
    assert world.force == {RungName.DRIVER: 500, RungName.MPS: 500}
    world.climber.resize(undo, site(500), site(250), ALONE)
    assert world.force == {RungName.DRIVER: 250}
    assert (undo.plan, list(undo.rungs)) == (ALONE, [RungName.DRIVER])


def test_a_holder_is_asked_about_but_not_for_what_it_has_already() -> None:
    world = World()
    able = world.climber.holder(site(started=True))
    assert able.reasons[RungName.MPS] == "CUDA has started"
    assert world.climber.holder(site(started=True), kept=[RungName.MPS]).possible(RungName.MPS)


def test_a_device_is_not_asked_about_at_every_turn() -> None:
    world = World()
    for _ in range(3):
        world.climber.device(A100)
    assert world.asked == 2
    world.clock.now += 6
    world.climber.device(A100)
    assert world.asked == 4


def test_what_exceeding_limits_has_shown_is_weighed(tmp_path: Path) -> None:
    book = ProbeBook(tmp_path / PROBES_FILE)
    book.write("GPU-1", "615.71", "driver", probed_now([Resource.MEMORY], {}, "It held."))
    book.write(
        "GPU-1", "615.71", "mps", probed_now([], {Resource.COMPUTE: "All multiprocessors computed."}, "")
    )
    world = World()
    climber = Climber(list(world.climber.rungs.values()), book)
    memory, compute = climber.look(put(world), site())
    assert memory.verified is Verified.PROBED
    assert compute.strength is Strength.NONE
    assert "All multiprocessors computed." in compute.note


def test_a_record_of_a_rung_that_this_agent_has_not_is_told() -> None:
    world = World()
    undo = put(world)
    less = Climber([world.climber.rungs[RungName.DRIVER]])
    with pytest.raises(BackendError, match="no mps rung to undo it with"):
        less.take_away(undo, LEASE)
    assert world.force == {RungName.MPS: 250}


def test_what_the_rungs_tell_the_holder_is_put_together() -> None:
    world = World()
    undo = begin(BOTH, 1000, 0)
    whole = merged(world.climber.put(undo, site()))
    assert whole.environment == {"DRIVER": "1", "MPS": "1"}
    assert whole.notices == ["driver is put", "mps is put"]
