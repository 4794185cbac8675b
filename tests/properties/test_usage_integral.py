"""What is reported of usage is the integral of what was held, whatever happened, and however it is split."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.cluster.journal_spans import Span, spans_until
from jupyter_gpupool.core.effects import Effect, WriteDown
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.events import Event
from jupyter_gpupool.core.leases import HOLDING
from jupyter_gpupool.core.quotas import usage_until
from jupyter_gpupool.service.usage_report import Every, Facts, Wanted, report, zone_of
from jupyter_gpupool.testing import PoolDriver, a_device

NODES = tuple(a_device(f"cuda{it}", node_id=f"node-{node}") for node in (1, 2) for it in (0, 1))
DAY_MS = 86_400_000
MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ["request", "request", "attach", "resize", "apply", "end", "leave", "join", "restart"]
        ),
        st.sampled_from([125, 250, 500, 1000]),
        st.integers(0, 9),
        st.integers(0, 40_000_000),
    ),
    max_size=25,
)


class OnDisk(PoolDriver):
    """A driver that writes its journal to a disk, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = Journal.open(path)
        super().__init__(NODES)

    def handle(self, event: Event) -> list[Effect]:
        effects = super().handle(event)
        writes = [it for it in effects if isinstance(it, WriteDown)]
        if writes:
            self.disk.commit(writes, now_ms=self.now_ms, wall_ms=self.when["wall_ms"])
        return effects

    def restart(self, *, down_ms: int = 0) -> None:
        self.disk.close()
        super().restart(down_ms=down_ms)
        self.disk = Journal.open(self.path)
        for node_id in ("node-1", "node-2"):
            self.join(node_id)

    def spans(self) -> list[Span]:
        now = self.when
        live = [
            span
            for lease in self.pool.leases.values()
            for span in spans_until(lease, now["now_ms"], now["wall_ms"])
        ]
        return [*self.disk.spent.spans(0, 2**60), *live]


def play(pool: OnDisk, move: tuple[str, int, int, int]) -> None:
    what, milli, number, ms = move
    pool.advance(ms)
    ids = sorted(pool.pool.leases)
    chosen = ids[number % len(ids)] if ids else ""
    try:
        if what == "request":
            pool.request(milli, owner=f"owner-{number % 3}")
        elif what in ("leave", "join"):
            getattr(pool, what)(f"node-{1 + number % 2}")
        elif what == "restart":
            pool.restart(down_ms=ms // 100)
        elif chosen:
            getattr(pool, what)(chosen, *([milli] if what == "resize" else []))
    except (GPUPoolError, AssertionError):
        return  # not possible now


@settings(max_examples=15, deadline=None, derandomize=True)
@given(moves=MOVES, zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]))
def test_the_report_is_the_integral_of_the_journal_across_restarts(
    moves: list[tuple[str, int, int, int]], zone: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pool = OnDisk(Path(folder) / "private" / "journal.sqlite3")
        for move in moves:
            play(pool, move)
        pool.check()  # the usage of each lease is the integral of what it held
        rows = [*pool.journal.rows.values()]
        expected: dict[str, int] = {}
        for lease in rows:
            expected[lease.owner] = expected.get(lease.owner, 0) + usage_until(lease, pool.now_ms)
        facts = Facts(spans=pool.spans(), measured=(), devices={})
        pool.disk.close()
    begin, end = 1_700_000_000_000 - DAY_MS, pool.when["wall_ms"] + DAY_MS
    for every in Every:
        wanted = Wanted(since_ms=begin, until_ms=end, by=("owner",), every=every, zone=zone_of(zone))
        sums: dict[str, int] = {}
        for row in report(facts, wanted):
            sums[row.owner] = sums.get(row.owner, 0) + round(row.held_device_seconds * 1_000_000)
        assert sums == {owner: used for owner, used in expected.items() if used or owner in sums}, every


#: Which groups the owners are in, one after the other; missing for none.
GROUPS = st.dictionaries(
    st.sampled_from(["owner-0", "owner-1", "owner-2"]), st.sampled_from(["lab", "class"]), max_size=3
)


def integral(pool: OnDisk, told: list[tuple[int, dict[str, str]]]) -> dict[tuple[str, str], int]:
    """Add up what was held by owner and group, piece by piece, from the transitions in memory."""
    begins = [(0, told[0][1]), *told[1:]] if told else [(0, {})]
    ends = [*(at for at, _ in begins[1:]), 2**60]
    last: dict[str, WriteDown] = {}
    pieces: list[tuple[WriteDown, int]] = []
    for write in pool.journal.writes:
        before = last.get(write.lease.id)
        pieces += [(before, write.wall_ms)] if before is not None else []
        last[write.lease.id] = write
    pieces += [(it, pool.when["wall_ms"]) for it in last.values()]
    sums: dict[tuple[str, str], int] = {}
    for before, until_ms in pieces:
        held = before.lease.shares if before.lease.state in HOLDING else ()
        milli = sum(share.compute_milli for share in held)
        for (begin, groups), end in zip(begins, ends, strict=True):
            lasted = min(end, until_ms) - max(begin, before.wall_ms)
            if lasted > 0 and milli:
                key = (before.lease.owner, groups.get(before.lease.owner, ""))
                sums[key] = sums.get(key, 0) + milli * lasted
    return sums


@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=st.lists(st.tuples(MOVES.map(lambda it: it[:6]), GROUPS), min_size=1, max_size=5))
def test_usage_by_group_is_of_the_group_at_the_time_across_restarts(
    steps: list[tuple[list[tuple[str, int, int, int]], dict[str, str]]],
) -> None:
    told: list[tuple[int, dict[str, str]]] = []
    with tempfile.TemporaryDirectory() as folder:
        pool = OnDisk(Path(folder) / "private" / "journal.sqlite3")
        for moves, groups in steps:
            # each time as a service that starts anew, and reads what the one before wrote
            known, now_ms = pool.disk.spent.memberships(), pool.when["wall_ms"]
            if not told or now_ms > told[-1][0]:
                pool.disk.spent.note_groups(known.take(groups, now_ms))
                told.append((now_ms, groups))
            for move in moves:
                play(pool, move)
        spans, known = pool.spans(), pool.disk.spent.memberships()
        expected = integral(pool, told)
        pool.disk.close()
    facts = Facts(spans=spans, measured=(), devices={}, groups=known)
    wanted = Wanted(since_ms=0, until_ms=2**41, by=("owner", "group"), every=Every.ALL, zone=zone_of("UTC"))
    sums = {(it.owner, it.group): round(it.held_device_seconds * 1_000_000) for it in report(facts, wanted)}
    assert {key: used for key, used in sums.items() if used} == expected
