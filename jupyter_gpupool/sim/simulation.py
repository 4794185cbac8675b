"""A simulation as a whole: a pool, a workload, and what each policy made of it.

Rule of this module: the same pool, workload, policies and seed give the same figures; only how long it took
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from jupyter_gpupool._version import version
from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.sim.compare import Outcome, Place, Policy, play
from jupyter_gpupool.sim.pools import SimPool
from jupyter_gpupool.sim.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What was played, and what came of it.

    Attributes
    ----------
    pool, workload, length : str
        What it was about, for a person.
    notes : tuple of str
        What a reader must know of it.
    seed : int
        Of everything that was drawn.
    version : str
        Of this program.
    outcomes : tuple of Outcome
        One for each policy.
    """

    pool: str
    workload: str
    length: str
    notes: tuple[str, ...]
    seed: int
    version: str
    outcomes: tuple[Outcome, ...]

    def document(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        for shown, outcome in zip(found["outcomes"], self.outcomes, strict=True):
            shown["events"] = outcome.events
        return found

    @property
    def speed(self) -> str:
        """How fast it was played, for a person."""
        events, facts = (
            sum(look) for look in zip(*((it.events, it.counts.facts) for it in self.outcomes), strict=True)
        )
        took = sum(it.seconds for it in self.outcomes)
        rate, decided = (60 * count / max(took, 1e-9) for count in (events, facts))
        return (
            f"{events:,} events in {took:.1f} s ({rate:,.0f} a minute); "
            f"the pool decided on {facts:,} of them ({decided:,.0f} a minute)."
        )


def simulate(
    pool: SimPool,
    workload: Workload,
    policies: Sequence[Policy],
    place: Place | None = None,
    *,
    seed: int = 0,
    tell: Callable[[int, float], None] | None = None,
) -> Simulation:
    """Play a workload once for each policy.

    Parameters
    ----------
    pool : SimPool
        The devices.
    workload : Workload
        Who comes.
    policies : sequence of Policy
        What is compared.
    place : Place or None
        Quotas, reservations and the calendar that hold for all of them; none when None.
    seed : int
        What the workload was drawn with; only shown.
    tell : callable or None
        Is told which policy is played, and how far it is.
    """
    outcomes = []
    for number, policy in enumerate(policies):
        told = None if tell is None else _telling(tell, number)
        outcomes.append(play(pool, workload, policy, place, tell=told))
    return Simulation(
        pool=pool.describe(),
        workload=workload.name,
        length=format_duration(workload.horizon_ms / 1000),
        notes=workload.notes,
        seed=seed,
        version=version(),
        outcomes=tuple(outcomes),
    )


def _telling(tell: Callable[[int, float], None], number: int) -> Callable[[float], None]:
    return lambda part: tell(number, part)
