"""The same events lead to the same effects, in whatever pool they happen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core import events as ev
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import Effect
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.policies import ORDERS
from jupyter_gpupool.core.policies.scores import SCORES
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.testing import PoolDriver, a_device, a_want

NODES = tuple(a_device(f"cuda{it}", node_id=f"node-{node}") for node in (1, 2) for it in (0, 1))
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["request", "request", "end", "wait", "leave", "join"]),
        st.sampled_from([250, 500, 810, 1000]),
        st.sampled_from([1, 1, 2]),
        st.integers(0, 9),
    ),
    max_size=60,
)


class Recorder(PoolDriver):
    """A driver that remembers every event that was taken, with what it led to."""

    def handle(self, event: ev.Event) -> list[Effect]:
        if not hasattr(self, "told_so_far"):
            self.told_so_far: list[tuple[ev.Event, list[Effect]]] = []
        effects = super().handle(event)
        self.told_so_far.append((event, effects))
        return effects


def play(pool: PoolDriver, move: tuple[str, int, int, int]) -> None:
    what, milli, count, number = move
    ids = sorted(pool.pool.leases)
    try:
        if what == "request":
            pool.request(replace(a_want(milli), count=count), owner=f"owner-{number % 4}")
        elif what == "end" and ids:
            pool.end(ids[number % len(ids)])
        elif what == "wait":
            pool.advance(1000 * milli)
        elif what == "leave":
            pool.leave(f"node-{1 + number % 2}")
        elif what == "join":
            pool.join(f"node-{1 + number % 2}")
    except GPUPoolError:
        return


@settings(max_examples=20, deadline=None, derandomize=True)
@given(moves=MOVES, order=st.sampled_from(sorted(ORDERS)), place=st.sampled_from(sorted(SCORES)))
def test_a_replay_of_the_same_events_gives_the_same_effects(
    moves: list[tuple[str, int, int, int]], order: str, place: str
) -> None:
    config = PoolConfig(order=order, place=place)
    pool = Recorder(NODES, config=config)
    for move in moves:
        play(pool, move)
        pool.check()
    again = Pool(config)
    for event, effects in pool.told_so_far:
        assert again.handle(event) == effects
