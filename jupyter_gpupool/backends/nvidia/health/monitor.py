"""The health of one GPU over time.

Rules of this module: pure, time is passed. Worse needs several bad rounds in a row (fatal findings none),
better needs several good ones that last; whatever is good for long enough is healthy again, always.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_gpupool.backends.nvidia.health.indicators import INDICATORS, LOST
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import (
    FINE,
    MINUTE_SECONDS,
    Finding,
    Indicator,
    Vitals,
)
from jupyter_gpupool.core.devices import Health

_RANK = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.FAILED: 2}
#: Readings are remembered at most this often, seconds.
_REMEMBER_SECONDS = 10.0
#: So many sentences are shown.
_MOST_SENTENCES = 3


def worse_of(one: Health, other: Health) -> Health:
    """Return the worse of two."""
    return one if _RANK[one] >= _RANK[other] else other


@dataclass(slots=True)
class Track:
    """One indicator over time: what counts (``held``), and what speaks for a change."""

    held: Finding = FINE
    #: The mildest finding of the bad rounds in a row, and how many they are.
    worse: Finding = FINE
    worse_rounds: int = 0
    #: The worst finding of the better rounds in a row, how many they are, and since when.
    better: Finding = FINE
    better_rounds: int = 0
    better_since: float = 0.0

    def see(self, found: Finding, seconds: float, rules: HealthRules) -> None:
        """Take one round's finding in."""
        rank, held = _RANK[found.health], _RANK[self.held.health]
        if rank > held:
            self._see_worse(found, rules)
        elif rank < held:
            self._see_better(found, seconds, rules)
        else:
            self.held = found if rank else FINE
            self.worse_rounds = self.better_rounds = 0

    def _see_worse(self, found: Finding, rules: HealthRules) -> None:
        self.better_rounds = 0
        milder = self.worse_rounds == 0 or _RANK[found.health] <= _RANK[self.worse.health]
        self.worse = found if milder else self.worse
        self.worse_rounds += 1
        if found.at_once or self.worse_rounds >= rules.worse_rounds:
            self.held, self.worse_rounds = found if found.at_once else self.worse, 0

    def _see_better(self, found: Finding, seconds: float, rules: HealthRules) -> None:
        self.worse_rounds = 0
        if self.better_rounds == 0:
            self.better, self.better_since = found, seconds
        elif _RANK[found.health] >= _RANK[self.better.health]:
            self.better = found
        self.better_rounds += 1
        lasted = seconds - self.better_since >= rules.better_seconds
        if self.better_rounds >= rules.better_rounds and lasted:
            healthy = self.better.health is Health.HEALTHY
            self.held, self.better_rounds = FINE if healthy else self.better, 0


class Monitor:
    """The health of one GPU.

    Parameters
    ----------
    rules : HealthRules
        By which it is judged.
    indicators : mapping of str to Indicator
        What is looked at.
    """

    def __init__(self, rules: HealthRules, indicators: Mapping[str, Indicator] = INDICATORS) -> None:
        self._rules = rules
        self._indicators = indicators
        self._tracks = {name: Track() for name in indicators}
        self._past: deque[Vitals] = deque()
        self._keep_seconds = max(rules.quiet_seconds, MINUTE_SECONDS)

    def see(self, now: Vitals) -> None:
        """Take one round in. While the GPU does not answer, what was known of it stays as it was."""
        for name, indicator in self._indicators.items():
            if now.lost and name != LOST:
                continue
            found, track = indicator(now, self._past, self._rules), self._tracks[name]
            if found is FINE and track.held is FINE:  # nearly always
                track.worse_rounds = 0
            else:
                track.see(found, now.seconds, self._rules)
        if not now.lost:
            self._remember(now)

    def _remember(self, now: Vitals) -> None:
        if not self._past or now.seconds - self._past[-1].seconds >= _REMEMBER_SECONDS:
            self._past.append(now)
        while len(self._past) > 2 and now.seconds - self._past[1].seconds > self._keep_seconds:
            del self._past[1]  # the first stays: it tells how the GPU was at the start

    @property
    def health(self) -> Health:
        """The worst that counts now."""
        return max(
            (one.health for one in self.findings.values()), key=_RANK.__getitem__, default=Health.HEALTHY
        )

    @property
    def reason(self) -> str:
        """What is wrong, the worst first; empty when nothing is."""
        held = sorted(self.findings.values(), key=lambda finding: -_RANK[finding.health])
        return " ".join(finding.sentence for finding in held[:_MOST_SENTENCES])

    @property
    def findings(self) -> dict[str, Finding]:
        """What counts now and is not healthy, by indicator."""
        return {name: track.held for name, track in self._tracks.items() if track.held is not FINE}
