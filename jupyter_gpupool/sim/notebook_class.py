"""A class of notebook users who do not exist, drawn from published distributions.

The tables are aggregates of a trace of notebook cells on GPUs: 341 sessions with 100,131 cells in 30 days of
June 2021, very probably the one of NotebookOS (ASPLOS 2026, arXiv 2503.20591, "AdobeTrace"); minutes, at a
resolution of one minute. That about 70 % of the sessions use no GPU at all is from the same paper.

Rules of this module: what is drawn depends on the seed and the number of users alone; a user more changes
nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.sim.quantiles import Quantiles
from jupyter_gpupool.sim.workload import DAY_MS, MINUTE_MS, Person, Visit, Workload

#: (part of all cells, minutes): how long one runs. Published: p25 2, p50 2, p75 6, p90 20, p95 40, p99 220.
CELL_MINUTES = Quantiles(
    (0.0, 1.0), (0.25, 2.0), (0.5, 2.0), (0.75, 6.0), (0.9, 20.0), (0.95, 40.0), (0.99, 220.0)
)
#: The longest hundredth: a Pareto tail with this exponent up to so many minutes (10 days). Chosen so that the
#: mean is 19.8 minutes and the tail more than half of the busy time, as published (59 %).
TAIL_EXPONENT, TAIL_MINUTES = 0.9, 14_400.0
#: (part of all pauses, minutes): from the end of a cell to the next. Published: 26 % zero, p50 1, p75 3,
#: p90 7, p95 15; above 10 min 6.5 %, 30 min 3.3 %, 60 min 2.4 %, 8 h 1.1 %, 24 h 0.54 %;
#: the end is ours (7 days).
PAUSE_MINUTES = Quantiles(
    *((0.26, 0.0), (0.5, 1.0), (0.75, 3.0), (0.9, 7.0), (0.935, 10.0), (0.95, 15.0), (0.967, 30.0)),
    *((0.976, 60.0), (0.989, 480.0), (0.9946, 1440.0), (1.0, 10_080.0)),
)
#: (part of all sessions, cells). Published: p25 9, p50 57, p75 253, p90 904; the ends are ours.
CELLS = Quantiles((0.0, 1.0), (0.25, 9.0), (0.5, 57.0), (0.75, 253.0), (0.9, 904.0), (1.0, 3000.0))
#: (part of all sessions, hours that they last). Published: p10 0.4, p25 73, p50 366, p75 634, p90 688.
SPAN_HOURS = Quantiles(
    (0.0, 0.1), (0.1, 0.4), (0.25, 73.0), (0.5, 366.0), (0.75, 634.0), (0.9, 688.0), (1.0, 720)
)
#: (part, minutes) from the end of a session to the next: pauses above 30 min, published p50 155, p90 54 h.
AWAY_MINUTES = Quantiles((0.0, 30.0), (0.5, 155.0), (0.9, 3240.0), (1.0, 10_080.0))
#: How many days of a class, at least half of them, lie behind it when it is looked at first, so that long
#: sessions are as frequent among those that go on as they would be.
_BEFORE_DAYS = 60
#: How often somebody is told how far it is, in users.
_TELL_EVERY = 64
#: The part of sessions that hold a share and never use it.
IDLE_SESSIONS = 0.7
#: Share sizes by how many of a class ask for them. No trace of fractional notebook leases is public: this mix
#: is an assumption, in the proportions in which a course, and some who train, would ask.
SIZES = {250: 0.7, 500: 0.2, 1000: 0.1}


@dataclass(frozen=True, kw_only=True)
class NotebookClass:
    """Whom a class consists of.

    Attributes
    ----------
    users : int
        How many they are.
    days : float
        For how long they are looked at.
    seed : int
        Of everything that is drawn.
    sizes : mapping of int to float
        Weights of the share sizes, thousandths of a device.
    idle_sessions : float
        The part of sessions that hold a share and never use it.
    arrive_minutes : float
        Over how long those who are in a session already come, in the beginning.
    """

    users: int
    days: float = 5
    seed: int = 0
    sizes: Mapping[int, float] = field(default_factory=lambda: SIZES)
    idle_sessions: float = IDLE_SESSIONS
    arrive_minutes: float = 480

    def __post_init__(self) -> None:
        """See that the numbers mean something."""
        if not 1 <= self.users <= 1_000_000:
            raise InvalidValue(f"A class of {self.users} users is out of range.", hint="Say 1 to 1000000.")
        if not 0 < self.days <= 366:
            raise InvalidValue(f"{self.days:g} days are out of range.", hint="Say more than 0, up to 366.")
        if not 0 <= self.idle_sessions <= 1:
            raise InvalidValue(f"{self.idle_sessions:g} is no part of the sessions.", hint="Say 0 to 1.")

    def workload(self, tell: Callable[[float], None] | None = None) -> Workload:
        """Draw everybody.

        Parameters
        ----------
        tell : callable or None
            Is told now and then which part of them is drawn.
        """
        horizon = round(self.days * DAY_MS)
        people: list[Person] = []
        for number in range(self.users):
            if tell is not None and number % _TELL_EVERY == 0:
                tell(number / self.users)
            people.append(self._person(number, horizon))
        idle = f"{self.idle_sessions:.0%} of the sessions hold a share and never use it"
        return Workload(
            name=f"{self.users} notebook users for {self.days:g} days",
            people=tuple(people),
            horizon_ms=horizon,
            notes=(f"Drawn from published aggregates of a notebook trace, seed {self.seed}; {idle}.",),
        )

    def _person(self, number: int, horizon_ms: int) -> Person:
        random = Random(f"{self.seed}/{number}")  # noqa: S311 - it is about statistics
        # a day beyond the horizon: whoever waits then still has rivals
        until = horizon_ms + DAY_MS
        at = -round(_BEFORE_DAYS * DAY_MS * random.uniform(0.5, 1))
        visits: list[Visit] = []
        while at < until:
            visit = self._visit(random, most_ms=until - at)
            begins, at = at + visit.after_ms, at + visit.after_ms + visit.length_ms
            if not visits and at > 0:
                visits.append(self._first(random, visit, begins))
                at = max(at, visits[0].after_ms)
            elif visits:
                visits.append(visit)
        return Person(f"user-{number:04}", tuple(visits))

    def _first(self, random: Random, visit: Visit, begins: int) -> Visit:
        """Return what is left of a session that goes on when the class is looked at first."""
        if begins >= 0:
            return replace(visit, after_ms=begins)
        begun = random.uniform(0, self.arrive_minutes) * MINUTE_MS
        return replace(_rest(visit, -begins), after_ms=round(begun))

    def _visit(self, random: Random, *, most_ms: int) -> Visit:
        after = AWAY_MINUTES.at(random.random())
        (size,) = random.choices(tuple(self.sizes), tuple(self.sizes.values()))
        want = Want(compute_milli=size)
        if random.random() < self.idle_sessions:
            span = SPAN_HOURS.at(random.random()) * 60
            return Visit(_ms(after), want, (), stay_ms=_ms(span))
        return Visit(
            _ms(after), want, _cells(random, most_ms), stay_ms=_ms(PAUSE_MINUTES.at(random.random()))
        )


def _cells(random: Random, most_ms: int) -> tuple[tuple[int, int], ...]:
    """Draw the cells of a session, as far as they could run."""
    cells: list[tuple[int, int]] = []
    at = 0
    for _ in range(round(CELLS.at(random.random()))):
        pause = PAUSE_MINUTES.at(random.random()) if cells else random.uniform(0, 5)
        pause_ms, runs_ms = _ms(pause), max(1, _ms(cell_minutes(random.random())))
        cells.append((pause_ms, runs_ms))
        at += pause_ms + runs_ms
        if at > most_ms:
            break
    return tuple(cells)


def _rest(visit: Visit, passed_ms: int) -> Visit:
    """Return what is left of a session after a time."""
    for number, (pause, runs) in enumerate(visit.cells):
        if passed_ms < pause + runs:
            left = (max(0, pause - passed_ms), runs - max(0, passed_ms - pause))
            return replace(visit, cells=(left, *visit.cells[number + 1 :]))
        passed_ms -= pause + runs
    return replace(visit, cells=(), stay_ms=max(0, visit.stay_ms - passed_ms))


def cell_minutes(part: float) -> float:
    """Return how long the cell at a part of all cells runs, minutes: the table, and its Pareto tail."""
    last, longest = CELL_MINUTES.last
    if part < last:
        return CELL_MINUTES.at(part)
    beyond = (part - last) / (1 - last)
    most = 1 - (longest / TAIL_MINUTES) ** TAIL_EXPONENT
    return float(longest * (1 - beyond * most) ** (-1 / TAIL_EXPONENT))


def _ms(minutes: float) -> int:
    return round(minutes * MINUTE_MS)
