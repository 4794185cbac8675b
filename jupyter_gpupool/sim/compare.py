"""Policies as people write them, and two runs of one workload side by side.

Rule of this module: a setting is a field of `PoolConfig` or of `Habits`, under its own name; durations can be
written in seconds, minutes or hours instead of milliseconds. What is not known is refused with what is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies import order_policy, place_policy
from jupyter_gpupool.core.policies.evictions import evict_policy
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.core.reservations import Reserved
from jupyter_gpupool.core.shares import parse_compute
from jupyter_gpupool.sim.engine import Engine, Habits
from jupyter_gpupool.sim.measures import Counts, WaitSummary, jain
from jupyter_gpupool.sim.pools import SimPool
from jupyter_gpupool.sim.workload import DAY_MS, Workload

#: What is played where nothing is said: the order, the placement and the reclaim that this project is about.
USUAL = "order=fair,place=bid_price,reclaim_idle_minutes=10,release_idle_minutes=30"
#: What a class does without any of it, each kernel with a whole device: who comes first is first, nothing is
#: taken back, and a kernel that has been idle for an hour is culled.
PLAIN = (
    "order=fifo,place=first_fit,reclaim_idle_minutes=never,release_idle_minutes=never,preempt=no,"
    "share=1,cull_minutes=60"
)
#: Settings by the word that stands for them.
PRESETS: Mapping[str, str] = {"plain": PLAIN, "usual": USUAL}
_UNITS = {"seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
_CHECKS: Mapping[str, Callable[[str], object]] = {
    "order": order_policy,
    "place": place_policy,
    "evict": evict_policy,
}
_NO, _YES = frozenset({"no", "false", "off", "0"}), frozenset({"yes", "true", "on", "1"})
#: Fields of the rules that cannot be written in one line.
_NOT_WRITTEN = frozenset({"quotas", "reservations"})


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules of a pool and habits around it, by the settings that were written."""

    text: str
    config: PoolConfig = field(default_factory=PoolConfig)
    habits: Habits = field(default_factory=Habits)


@dataclass(frozen=True, kw_only=True)
class Place:
    """What holds whichever policy is played.

    Attributes
    ----------
    quotas : Quotas
        What owners and groups may have, and deserve.
    reservations : tuple of Reserved
        What is reserved for groups at some times.
    begins_ms : int or None
        UTC at the beginning, milliseconds since the epoch; None for a Monday.
    """

    quotas: Quotas = field(default_factory=Quotas)
    reservations: tuple[Reserved, ...] = ()
    begins_ms: int | None = None


def parse_policy(text: str, base: Policy | None = None) -> Policy:
    """Read "order=fifo,place=best_fit,share=1,cull_minutes=60".

    Parameters
    ----------
    text : str
        Settings, separated by commas; a word of `PRESETS` stands for its settings.
    base : Policy or None
        What holds where nothing is said; the defaults when None.

    Raises
    ------
    InvalidValue
        If a setting or its value is unknown; the message lists those that exist.
    """
    config, habits = (base.config, base.habits) if base is not None else (PoolConfig(), Habits())
    written = dict(it.split("=", 1) for it in base.text.split(",") if "=" in it) if base is not None else {}
    for part in _parts(text):
        name, equals, value = (it.strip() for it in part.partition("="))
        if not equals or not value:
            raise InvalidValue(f"“{part[:60]}” is not a setting.", hint="Write it as order=fair,place=pack.")
        written[name] = value
        if name == "share":
            habits = replace(habits, share_milli=parse_compute(value))
        elif (found := _setting(config, name, value)) is not None:
            config = replace(config, **found)
        elif (found := _setting(habits, name, value)) is not None:
            habits = replace(habits, **found)
        else:
            raise InvalidValue(f"There is no setting “{name}”.", hint=f"There are: {', '.join(_known())}.")
    if not 0 < habits.stretch <= 1000:
        raise InvalidValue(f"Cells cannot run {habits.stretch:g} times as long.", hint="Say 0 to 1000.")
    line = ",".join(f"{name}={value}" for name, value in written.items())
    return Policy(text=line or "defaults", config=config, habits=habits)


def _parts(text: str) -> Iterator[str]:
    for part in (it.strip() for it in text.split(",")):
        if part in PRESETS:
            yield from PRESETS[part].split(",")
        elif part:
            yield part


def _setting(owner: PoolConfig | Habits, name: str, value: str) -> dict[str, Any] | None:
    """Return a field and its value; None when there is no such field."""
    kinds = {it.name: str(it.type) for it in fields(owner) if it.name not in _NOT_WRITTEN}
    stem, _, unit = name.rpartition("_")
    if unit in _UNITS and f"{stem}_ms" in kinds:
        return {f"{stem}_ms": _duration(name, value, _UNITS[unit], kinds[f"{stem}_ms"])}
    kind = kinds.get(name)
    if kind is None:
        return None
    if kind == "str":
        _CHECKS.get(name, str)(value)
        return {name: value}
    if kind == "bool":
        return {name: _truth(name, value)}
    if kind == "float":
        return {name: _number(name, value)}
    return {name: _duration(name, value, 1, kind)}


def _duration(name: str, value: str, unit: int, kind: str) -> int | None:
    if "None" in kind and value.lower() in {"never", "none"}:
        return None
    return round(_number(name, value) * unit)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise InvalidValue(f"{name}={value[:40]} is not a number from 0 on.")
    return number


def _truth(name: str, value: str) -> bool:
    if value.lower() not in _NO | _YES:
        raise InvalidValue(f"{name}={value[:40]} is neither yes nor no.")
    return value.lower() in _YES


def _known() -> list[str]:
    names = [it.name for owner in (PoolConfig, Habits) for it in fields(owner) if it.name not in _NOT_WRITTEN]
    names = ["share" if it == "share_milli" else it for it in names]
    return sorted(f"{it[:-3]}_seconds|minutes|hours" if it.endswith("_ms") else it for it in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one policy made of a workload.

    Attributes
    ----------
    policy : str
        The line it was written in.
    capacity_hours, held_hours, busy_hours : float
        Device-hours until the horizon: there, held by leases, and held while a cell ran.
    requests, cells : WaitSummary
        Waits of requests for their grant, and of cells for the share they need.
    success : float
        The part of the requests that was granted.
    fairness : float
        Jain's index over owners, of the part of the time in which an owner wanted to compute and could.
    fragmentation : float
        Mean part of the free compute that the sizes that are asked for could not use.
    counts : Counts
        What happened, how often.
    lost_hours : float
        Hours that cells had run that were cut off.
    series : tuple of (float, float, float, float, float)
        Hours from the beginning; devices held, in use; requests in the queue; fragmentation.
    seconds : float
        How long it took to play.
    """

    policy: str
    capacity_hours: float
    held_hours: float
    busy_hours: float
    requests: WaitSummary
    cells: WaitSummary
    success: float
    fairness: float
    fragmentation: float
    counts: Counts
    lost_hours: float
    series: tuple[tuple[float, float, float, float, float], ...]
    seconds: float

    @property
    def events(self) -> int:
        """Everything that happened: to people, and as facts given to the pool."""
        return self.counts.facts + self.counts.steps


def play(
    pool: SimPool,
    workload: Workload,
    policy: Policy,
    place: Place | None = None,
    *,
    drain_ms: int = DAY_MS,
    tell: Callable[[float], None] | None = None,
) -> Outcome:
    """Play a workload by one policy."""
    begun, place = time.perf_counter(), place or Place()
    config = replace(policy.config, quotas=place.quotas, reservations=place.reservations)
    engine = Engine(
        pool, workload, config, policy.habits, begins_ms=place.begins_ms, drain_ms=drain_ms, tell=tell
    )
    played = engine.run()
    meter, counts = played.meter, played.counts
    rows = zip(meter.means(), played.fragmentation, strict=True)
    requests = played.requests.summary()
    return Outcome(
        policy=policy.text,
        capacity_hours=len(pool.devices(pool.kind)) * workload.horizon_ms / 3_600_000,
        held_hours=meter.held_hours,
        busy_hours=meter.busy_hours,
        requests=requests,
        cells=played.cells.summary(),
        success=counts.granted / counts.requests if counts.requests else 1.0,
        fairness=jain([it.served for it in played.owners.values() if it.wanted]),
        fragmentation=sum(played.fragmentation) / max(1, len(played.fragmentation)),
        counts=counts,
        lost_hours=counts.lost_ms / 3_600_000,
        series=tuple((*row, part) for row, part in rows),
        seconds=time.perf_counter() - begun,
    )
