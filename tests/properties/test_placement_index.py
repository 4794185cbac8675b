"""The index always answers as a look at every node would, whatever happened before."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jupyter_gpupool.core.placement.demand import demand_of
from jupyter_gpupool.core.placement.index import Placement, PlacementIndex
from jupyter_gpupool.core.placement.prices import worth_table
from jupyter_gpupool.core.placement.rooms import Ask, Frame, Room, able, fits, take, taken, tightest
from jupyter_gpupool.core.policies.scores import SCORES

GIB = 2**30
MODELS = ("A100", "T4")
CAPACITY = {"A100": 8, "T4": 4}

#: What a device may be: free thousandths, free and all of its GiB, its part of a GPU, whether granted whole.
Part = tuple[int, int, int, int, bool]
PARTS: tuple[Part, ...] = (
    (0, 0, 40, 1000, False),
    (190, 40, 40, 1000, False),
    (500, 10, 40, 1000, False),
    (500, 20, 80, 1000, False),
    (1000, 40, 40, 1000, False),
    (1000, 80, 80, 1000, False),
    (0, 0, 20, 285, True),
    (285, 20, 20, 285, True),
    (571, 40, 40, 571, True),
)


def _room(model: str, cpu_milli: int, memory_bytes: int, parts: list[Part], limited: bool) -> Room:
    devices = tuple(it[0] for it in parts)
    if not limited:
        return Room(model, cpu_milli, memory_bytes, devices)
    sizes = tuple(it[2] * GIB for it in parts)
    frame = Frame(sizes, sizes, tuple(it[3] for it in parts), tuple(it[4] for it in parts))
    return Room(model, cpu_milli, memory_bytes, devices, tuple(it[1] * GIB for it in parts), frame)


rooms = st.builds(
    _room,
    st.sampled_from(MODELS),
    st.sampled_from([0, 4000, 8000, 64_000]),
    st.sampled_from([0, 16 * GIB, 256 * GIB]),
    st.lists(st.sampled_from(PARTS), min_size=0, max_size=4),
    st.booleans(),
)


def _ask(
    cpu_milli: int, memory_gib: int, size: tuple[int, int], models: tuple[str, ...], device_gib: int | None
) -> Ask:
    devices, milli = size
    device_bytes = None if device_gib is None else device_gib * GIB
    return Ask(
        cpu_milli,
        memory_gib * GIB,
        devices,
        milli,
        models if devices else (),
        device_bytes if devices else None,
    )


asks = st.builds(
    _ask,
    st.sampled_from([0, 1000, 6000]),
    st.sampled_from([0, 8, 64]),
    st.sampled_from([(0, 0), (1, 190), (1, 500), (1, 810), (1, 1000), (2, 1000), (2, 250)]),
    st.sampled_from([(), ("T4",), ("A100", "T4")]),
    st.sampled_from([None, None, 10, 30]),
)


class IndexMachine(RuleBasedStateMachine):
    """Nodes come, change and go; requests take and give back."""

    @initialize(policy=st.sampled_from(sorted(SCORES)), seen=st.lists(asks, max_size=12))
    def begin(self, policy: str, seen: list[Ask]) -> None:
        self.policy, self.demand = SCORES[policy], demand_of(seen, CAPACITY)
        self.index = PlacementIndex(self.policy, self.demand)
        self.nodes: dict[str, Room] = {}
        self.taken: list[tuple[Ask, Placement, list[tuple[int, int]]]] = []
        self.made = 0

    @rule(room=rooms)
    def a_node_joins(self, room: Room) -> None:
        self.made += 1
        self.nodes[name := f"node{self.made}"] = room
        self.index.set_room(name, room)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), room=rooms)
    def a_node_is_described_anew(self, data: st.DataObject, room: Room) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.taken = [it for it in self.taken if it[1].node != name]
        self.nodes[name] = room
        self.index.set_room(name, room)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def a_node_leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.taken = [it for it in self.taken if it[1].node != name]
        del self.nodes[name]
        self.index.remove(name)

    @rule(ask=asks)
    def a_request_takes_what_every_look_would_find(self, ask: Ask) -> None:
        found = self.index.best(ask)
        assert found == self._looked_for(ask)
        if found is not None:
            before = self.nodes[found.node]
            self.index.take(ask, found)
            self.nodes[found.node] = take(ask, before, found.devices)
            self.taken.append((ask, found, [taken(ask, before, it) for it in found.devices]))

    @rule(ask=asks, most=st.integers(1, 5))
    def the_first_few_are_the_best_of_each_room(self, ask: Ask, most: int) -> None:
        firsts: dict[Room, Placement] = {}
        for name in sorted(self.nodes, key=lambda it: int(it[4:])):
            room = self.nodes[name]
            if fits(ask, room) and room not in firsts:
                scored = self.policy(ask, room, self.demand)
                firsts[room] = Placement(name, scored.devices, scored.score)
        expected = sorted(firsts.values(), key=lambda it: (-it.score, int(it.node[4:])))[:most]
        assert self.index.first(ask, most) == expected

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def a_request_gives_back(self, data: st.DataObject) -> None:
        ask, placement, parts = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        before = self.nodes[placement.node]
        free, free_bytes = list(before.devices), list(before.device_bytes)
        for index, (milli, size) in zip(placement.devices, parts, strict=True):
            free[index] += milli
            if free_bytes:
                free_bytes[index] += size
        room = before._replace(
            cpu_milli=before.cpu_milli + ask.cpu_milli,
            memory_bytes=before.memory_bytes + ask.memory_bytes,
            devices=tuple(free),
            device_bytes=tuple(free_bytes),
        )
        self.nodes[placement.node] = room
        self.index.set_room(placement.node, room)

    @rule(seen=st.lists(asks, max_size=12))
    def the_statistics_are_drawn_up_anew(self, seen: list[Ask]) -> None:
        self.demand = demand_of(seen, CAPACITY)
        self.index.set_demand(self.demand)

    @invariant()
    def it_knows_what_is_free(self) -> None:
        assert {name: self.index.room(name) for name in self.nodes} == self.nodes

    def _looked_for(self, ask: Ask) -> Placement | None:
        """Look at every node, in the order in which they joined."""
        best: Placement | None = None
        for name in sorted(self.nodes, key=lambda it: int(it[4:])):
            room = self.nodes[name]
            if fits(ask, room):
                scored = self.policy(ask, room, self.demand)
                if best is None or scored.score > best.score:
                    best = Placement(name, scored.devices, scored.score)
        return best


IndexMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestIndex = IndexMachine.TestCase


@given(ask=asks, room=rooms)
def test_every_policy_chooses_devices_on_which_the_request_fits(ask: Ask, room: Room) -> None:
    if not fits(ask, room):
        return
    for name, policy in SCORES.items():
        devices = policy(ask, room, demand_of([ask] * 3, CAPACITY)).devices
        assert len(set(devices)) == len(devices) == ask.devices, name
        assert set(devices) <= set(able(ask, room)), name
    after = take(ask, room, tightest(ask, room) if ask.devices else ())
    assert min(after.cpu_milli, after.memory_bytes, *after.devices, *after.device_bytes, 0) >= 0


@given(st.dictionaries(st.integers(1, 1000), st.integers(1, 5000), max_size=30))
def test_what_is_free_is_worth_more_the_more_it_is_and_a_device_is_worth_one(sizes: dict[int, int]) -> None:
    worth = worth_table(sizes)
    assert len(worth) == 1001
    assert (worth[0], round(worth[1000], 9)) == (0.0, 1.0)
    assert all(less <= more + 1e-9 for less, more in pairwise(worth))


@given(
    st.dictionaries(
        st.integers(1, 100).map(lambda it: it * 10), st.integers(1, 5000), min_size=1, max_size=12
    ),
    st.data(),
)
def test_no_set_of_sizes_that_fits_a_device_costs_more_than_a_device(
    sizes: dict[int, int], data: st.DataObject
) -> None:
    worth, room, bill = worth_table(sizes), 1000, 0.0
    while able := [size for size in sizes if size <= room]:
        size = data.draw(st.sampled_from(able))
        room, bill = room - size, bill + worth[size]
    assert bill <= 1 + 1e-6


def test_nodes_that_are_equally_free_are_named_once_however_often_that_changed() -> None:
    index = PlacementIndex(SCORES["best_fit"])
    room, ask = _room("A100", 0, 0, [], limited=False), _ask(0, 0, (0, 0), (), None)
    index.set_room("node0", room)
    assert [it.node for it in index.first(ask, 1)] == ["node0"]
    index.set_room("node1", room)
    assert [it.node for it in index.first(ask, 5)] == ["node0"]
    assert [it.node for it in index.first(ask, 5)] == ["node0"]
