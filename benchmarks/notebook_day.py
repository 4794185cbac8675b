"""Five days of 200 notebook users on 16 GPUs, by three ways to share them; nothing is measured on a GPU.

(a) A whole GPU for each session, first come first served, culled after an idle hour. (b) The same with fixed
quarters. (c) Ours: quarters, the fair order, placement by bid prices, leases that nobody uses taken back:
after 10 idle minutes for somebody who waits, after 30 anyway. The users are drawn from published aggregates
of a trace of notebook cells (see `jupyter_gpupool/sim/notebook_class.py`): 70 % of their sessions hold a
device and never use it. Cells run as long on a quarter as on a whole GPU: the trace does not say how much of
a GPU they used, so that (c) is played again with cells that run 1.5 times as long.

How many users each way serves is the largest class whose p95 wait of a request is not above that of (a).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from _common import Figure, machine

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.sim.compare import PLAIN, USUAL, Outcome, Policy, parse_policy, play
from jupyter_gpupool.sim.measures import WaitSummary
from jupyter_gpupool.sim.notebook_class import NotebookClass
from jupyter_gpupool.sim.pools import SimPool, parse_pool
from jupyter_gpupool.sim.table import ROWS

WAYS = {
    "a": ("whole GPU, culled", PLAIN),
    "b": ("quarter, culled", f"{PLAIN},share=0.25"),
    "c": ("ours", f"{USUAL},share=0.25"),
}
#: The same as (c) where a quarter makes cells longer.
SLOWER = f"{USUAL},share=0.25,stretch=1.5"
#: Goals: p99 wait below (a)'s by percent; part of requests served; users at the same p95 wait.
LOWER_PERCENT, SERVED_PERCENT, TIMES_USERS = 75, 99.9, 3
#: The search for the most users grows a class by this factor, ends within this part of its size, and at so
#: many times the first class.
_GROWTH, _PRECISION, _MOST_TIMES = 1.2, 0.1, 16


@dataclass(frozen=True, kw_only=True)
class Day:
    """What is played: a pool, a class, and for how long."""

    pool: SimPool
    users: int
    days: float
    seeds: tuple[int, ...]
    tell: Callable[[str], None]

    def run(self, policy: Policy, users: int, seed: int) -> Outcome:
        """Play a class of so many users once."""
        begun = time.monotonic()
        workload = NotebookClass(users=users, days=self.days, seed=seed).workload()
        outcome = play(self.pool, workload, policy)
        self.tell(f"{users} users, seed {seed}: {time.monotonic() - begun:.0f} s")
        return outcome

    def most_users(self, policy: Policy, p95_seconds: float) -> int:
        """Return the largest class that waits no longer, at p95 and by the first seed."""
        seed, low, high = self.seeds[0], 0, self.users * TIMES_USERS
        while high <= self.users * _MOST_TIMES and self.fits(policy, high, seed, p95_seconds):
            low, high = high, round(high * _GROWTH)
        while high - low > max(1, low * _PRECISION):
            middle = (low + high) // 2
            if self.fits(policy, middle, seed, p95_seconds):
                low = middle
            else:
                high = middle
        return low

    def fits(self, policy: Policy, users: int, seed: int, p95_seconds: float) -> bool:
        """Whether a class of so many waits no longer."""
        return self.run(policy, users, seed).requests.p95_seconds <= p95_seconds


def mean(outcomes: Sequence[Outcome], look: Callable[[Outcome], float]) -> float:
    """Return the mean over seeds."""
    return statistics.mean(look(it) for it in outcomes)


def judge(played: dict[str, list[Outcome]], users: dict[str, int]) -> list[Figure]:
    """Return what has a goal."""
    figures = []
    for name, look in (
        ("request", lambda it: it.requests.p99_seconds),
        ("cell", lambda it: it.cells.p99_seconds),
    ):
        whole, ours = mean(played["a"], look), mean(played["c"], look)
        lower = 100 * (1 - ours / whole) if whole else 0.0
        goal = f"> {LOWER_PERCENT}"
        figures.append(Figure(name=f"p99 wait of a {name}, below (a)", value=lower, unit="%", goal=goal))
    served = 100 * mean(played["c"], lambda it: it.success)
    figures.append(Figure(name="requests served by (c)", value=served, unit="%", goal=f"> {SERVED_PERCENT}"))
    if users:
        times = users["c"] / max(1, users["a"])
        goal = f"> {TIMES_USERS}"
        figures.append(Figure(name="users of (c) by those of (a)", value=times, unit="x", goal=goal))
    return figures


def show(played: dict[str, list[Outcome]], users: dict[str, int], day: Day) -> None:
    """Print the table: the first seed, and means where there are several."""
    heads = {
        "a": "(a) whole, culled",
        "b": "(b) quarter, culled",
        "c": "(c) ours",
        "slower": "(c) cells x 1.5",
    }
    print(f"\n{day.users} notebook users on {day.pool.describe()} for {day.days:g} days, seed {day.seeds[0]}")
    print(f"  {'':36}" + "".join(f"{heads[way]:>26}" for way in played))
    for row in ROWS:
        print(f"  {row.name:36}" + "".join(f"{row.show(found[0]):>26}" for found in played.values()))
    if users:
        print(
            f"  {'most users at the same p95 wait':36}"
            + "".join(f"{users.get(it, '-'):>26}" for it in played)
        )
    if len(day.seeds) > 1:
        print(f"  means over seeds {', '.join(map(str, day.seeds))}:")
        for name, look in _MEANS:
            print(f"  {name:36}" + "".join(f"{mean(found, look):>26,.4g}" for found in played.values()))


_MEANS: tuple[tuple[str, Callable[[Outcome], float]], ...] = (
    ("device-hours held", lambda it: it.held_hours),
    ("wait of a request, p95, seconds", lambda it: it.requests.p95_seconds),
    ("wait of a request, p99, seconds", lambda it: it.requests.p99_seconds),
    ("wait of a cell, p99, seconds", lambda it: it.cells.p99_seconds),
    ("requests granted within 1 s, part", lambda it: it.requests.within_1s),
    ("requests granted, part", lambda it: it.success),
    ("fairness (Jain)", lambda it: it.fairness),
    ("taken back for somebody", lambda it: it.counts.taken),
    ("taken back during a cell", lambda it: it.counts.taken_in_use),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Play everything; the status is 1 when a goal was missed."""
    options = _parser().parse_args(argv)
    try:
        day = Day(
            pool=parse_pool(options.pool),
            users=options.users,
            days=options.days,
            seeds=tuple(options.seeds),
            tell=lambda line: print(f"  {line}", file=sys.stderr, flush=True),
        )
        policies = {way: parse_policy(text) for way, (_, text) in WAYS.items()}
        policies["slower"] = parse_policy(SLOWER)
        played = {
            way: [day.run(policy, day.users, seed) for seed in day.seeds] for way, policy in policies.items()
        }
        users = {} if options.no_search else _search(day, policies, options.p95, played)
    except GPUPoolError as error:
        print(error, file=sys.stderr)
        return 1
    show(played, users, day)
    figures = judge(played, users)
    for figure in figures:
        verdict = "met" if figure.met else "MISSED"
        print(f"  {figure.name:36}{figure.value:>12.4g} {figure.unit:<3} (goal {figure.goal})  {verdict}")
    if options.json:
        options.json.write_text(json.dumps(_document(day, played, users, figures), indent=1) + "\n")
    return 0 if all(figure.met for figure in figures) else 1


def _search(
    day: Day, policies: dict[str, Policy], p95_seconds: float | None, played: dict[str, list[Outcome]]
) -> dict[str, int]:
    """Return how many users each way serves at a wait: that of (a), unless another one is asked for."""
    if p95_seconds is not None:
        return {way: day.most_users(policies[way], p95_seconds) for way in WAYS}
    target = played["a"][0].requests.p95_seconds
    return {"a": day.users} | {way: day.most_users(policies[way], target) for way in ("b", "c")}


def _document(
    day: Day, played: dict[str, list[Outcome]], users: dict[str, int], figures: Sequence[Figure]
) -> dict[str, object]:
    runs = {
        way: [
            asdict(replace(it, series=(), requests=_short(it.requests), cells=_short(it.cells)))
            for it in found
        ]
        for way, found in played.items()
    }
    return {
        "users": day.users,
        "days": day.days,
        "pool": day.pool.describe(),
        "seeds": day.seeds,
        "machine": machine(),
        "runs": runs,
        "most_users": users,
        "figures": [{**asdict(it), "met": it.met} for it in figures],
    }


def _short(waits: WaitSummary) -> WaitSummary:
    """Leave the curve away."""
    return replace(waits, curve=())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--pool", default="2*8xA100-80GB", help="as for jupyter gpupool simulate")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--days", type=float, default=5)
    parser.add_argument("--seeds", type=_numbers, default=[1, 2, 3], help="separated by commas")
    parser.add_argument("--no-search", action="store_true", help="do not look for the most users")
    parser.add_argument("--p95", type=float, metavar="SECONDS", help="count users at this wait, not at (a)'s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


if __name__ == "__main__":
    sys.exit(main())
