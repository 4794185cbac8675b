"""What indicators look at, and what they answer.

Rule of this module: plain frozen values; a reading that is missing is not there, and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.core.devices import Health

#: Window of indicators that look at rates, seconds.
MINUTE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Xid:
    """An XID error that the driver reported.

    Attributes
    ----------
    number : int
        Which.
    seconds : float
        When, on the sampler's clock.
    gpu_instance_id : int or None
        The MIG instance that it concerns; None for the whole GPU.
    """

    number: int
    seconds: float
    gpu_instance_id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """Everything that is known of a GPU at one time.

    Attributes
    ----------
    seconds : float
        When, on the sampler's clock.
    values : mapping of str to float
        Readings by the names of the catalogue; a missing one is not there.
    lost : str
        Why the GPU does not answer, one clause; empty when it does.
    xids : sequence of Xid
        What was reported lately, oldest first.
    """

    seconds: float
    values: Mapping[str, float]
    lost: str = ""
    xids: Sequence[Xid] = field(default=())


@dataclass(frozen=True, slots=True)
class Finding:
    """What one indicator says.

    Attributes
    ----------
    health : Health
        How bad it is.
    sentence : str
        What is wrong and what helps. It holds limits, never the reading itself: it must not change with every
        sample.
    at_once : bool
        True when it counts without waiting for more rounds.
    """

    health: Health
    sentence: str = ""
    at_once: bool = False


#: Nothing is wrong, or the GPU does not tell.
FINE = Finding(Health.HEALTHY)

#: Judges the present by itself and by what was before (oldest first); pure.
Indicator = Callable[[Vitals, Sequence[Vitals], HealthRules], Finding]


def degraded(sentence: str) -> Finding:
    """Return a finding that a person should look at."""
    return Finding(Health.DEGRADED, sentence)


def failed(sentence: str, *, at_once: bool = False) -> Finding:
    """Return a finding that takes the device out of use."""
    return Finding(Health.FAILED, sentence, at_once)


def flag(now: Vitals, name: str) -> bool:
    """Whether a reading is there and is not 0."""
    return now.values.get(name, 0.0) > 0


def increase(now: Vitals, past: Sequence[Vitals], name: str, seconds: float) -> float:
    """Return by how much a counter has grown within the last ``seconds``; 0 when it began afresh."""
    value = now.values.get(name)
    if value is None:
        return 0.0
    for then in past:
        before = then.values.get(name)
        if before is not None and now.seconds - then.seconds <= seconds:
            return max(0.0, value - before)
    return 0.0


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes"
