"""Whoever is entitled gets it after a bounded wait, whatever the others ask for meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import HOLDING, LeaseState
from jupyter_gpupool.core.policies import ORDERS
from jupyter_gpupool.core.policies.scores import SCORES
from jupyter_gpupool.testing import PoolDriver, a_device, a_want

#: No lease of the adversaries is longer, milliseconds; and time passes in such steps.
LONGEST_MS, STEP_MS = 600_000, 60_000
NODES = tuple(
    a_device(f"cuda{it}", node_id=f"node-{node}", one_owner=node == 3) for node in (1, 2, 3) for it in (0, 1)
)
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["request", "request", "request", "grow", "end"]),
        st.sampled_from([100, 250, 333, 500, 810, 1000]),
        st.sampled_from([None, 30_000, 120_000, LONGEST_MS]),
        st.sampled_from(["bob", "cyd", "dan"]),
        st.integers(0, 7),
    ),
    min_size=8,
    max_size=24,
)


class Adversaries:
    """Owners who ask for whatever would keep another one waiting; their leases end after ten minutes."""

    def __init__(self, pool: PoolDriver) -> None:
        self.pool = pool
        self.begun: dict[str, int] = {}

    def play(self, move: tuple[str, int, int | None, str, int]) -> None:
        what, milli, hold_ms, owner, number = move
        ids = list(self.begun)
        try:
            if what == "request" or not ids:
                self.begun[self.pool.request(milli, owner=owner, hold_ms=hold_ms)] = self.pool.now_ms
            elif what == "grow":
                self.pool.resize(ids[number % len(ids)], 1000)
                self.pool.apply(ids[number % len(ids)])
            else:
                self.pool.end(ids[number % len(ids)])
        except GPUPoolError:
            return

    def step(self) -> None:
        """Let a minute pass: what has lasted for too long ends, and holders attach."""
        self.pool.advance(STEP_MS)
        for lease in list(self.pool.pool.leases.values()):
            if lease.id not in self.begun:
                continue
            if lease.state is LeaseState.ATTACHING:
                self.pool.attach(lease.id)
            elif lease.state is LeaseState.ENDING:
                self.pool.detach(lease.id)
            elif lease.state in HOLDING and self.pool.now_ms - (lease.granted_ms or 0) >= LONGEST_MS:
                self.pool.end(lease.id)


@pytest.mark.parametrize("order", sorted(ORDERS))
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    before=MOVES,
    moves=MOVES,
    place=st.sampled_from(sorted(SCORES)),
    want=st.sampled_from([(1000, 1, False), (810, 1, False), (1000, 2, False), (1000, 4, True)]),
)
def test_whoever_deserves_it_waits_for_a_bounded_time(
    order: str,
    before: list[tuple[str, int, int | None, str, int]],
    moves: list[tuple[str, int, int | None, str, int]],
    place: str,
    want: tuple[int, int, bool],
) -> None:
    pool = PoolDriver(NODES, config=PoolConfig(order=order, place=place, aging_ms=LONGEST_MS))
    others = Adversaries(pool)
    for move in before:
        others.play(move)
    milli, count, spread = want
    wanted = pool.request(replace(a_want(milli), count=count, spread=spread), owner="ann")
    bound_ms = 8 * LONGEST_MS
    while pool.lease(wanted).granted_ms is None and pool.now_ms < bound_ms:
        for move in moves:
            others.play(move)
        others.step()
        pool.check()
    assert pool.lease(wanted).granted_ms is not None
