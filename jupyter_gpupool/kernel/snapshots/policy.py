"""When the state is saved by itself: what can be asked for, and what may be done when.

Rules of this module: pure; time is passed in. Saving never takes more of a kernel's time than its share,
whatever was asked for, so what would take longer is put off until it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from jupyter_gpupool.core.errors import InvalidValue

#: The share of a kernel's time that saving may take, without another.
SHARE = 0.05
#: Most that one save may keep the kernel, whatever it has saved up, seconds.
LONGEST_SECONDS = 60.0
#: Intervals shorter than this are refused, seconds.
SHORTEST_SECONDS = 1.0
#: A save that was cut short at some time is expected to take so much longer.
_AGAIN = 2.0


class Before(Enum):
    """What a state may be saved before."""

    SHUTDOWN = "shutdown"
    """The kernel is shut down, culled, or told to end by a signal."""
    PREEMPTION = "preemption"
    """The pool takes the lease back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When a state is saved by itself.

    Attributes
    ----------
    every_seconds : float or None
        So often, where something has run in between.
    after_seconds : float or None
        After each cell that ran for longer.
    before : frozenset of Before
        Before these.
    share : float
        Of the kernel's time, at most.
    """

    every_seconds: float | None = None
    after_seconds: float | None = None
    before: frozenset[Before] = frozenset()
    share: float = SHARE

    @property
    def follows_cells(self) -> bool:
        """Whether cells have to be looked at."""
        return self.every_seconds is not None or self.after_seconds is not None

    @property
    def off(self) -> bool:
        """Whether nothing is ever saved by itself."""
        return not self.follows_cells and not self.before

    def __str__(self) -> str:
        from jupyter_gpupool.core.shares import format_duration

        parts = [
            f"every {format_duration(self.every_seconds)}" if self.every_seconds is not None else "",
            f"after cells longer than {format_duration(self.after_seconds)}"
            if self.after_seconds is not None
            else "",
            *(f"before {it.value}" for it in Before if it in self.before),
        ]
        when = ", ".join(part for part in parts if part)
        return f"{when}; at most {self.share * 100:g} % of the kernel's time" if when else "off"


#: What holds without anybody's word, in kernels that have used the pool or snapshots.
DEFAULT = Policy(every_seconds=600.0, before=frozenset(Before))
OFF = Policy()


def parse(words: Sequence[str], present: Policy = OFF) -> Policy:
    """Read ``off``, or ``every 10m after 30s before shutdown share 5%``; what is not named stays as it is.

    Parameters
    ----------
    words : sequence of str
        As they were typed; commas do nothing.
    present : Policy
        What holds now.

    Raises
    ------
    InvalidValue
        If it cannot be understood.
    """
    rest = [word for text in words for word in text.replace(",", " ").split()]
    policy = present
    while rest:
        head = rest.pop(0).lower()
        if head == "off":
            policy = replace(OFF, share=policy.share)
            continue
        if head not in ("every", "after", "before", "share"):
            raise InvalidValue(
                f"“{head}” is not a way to save by itself.",
                hint="Write off, or any of every 10m, after 30s, before shutdown (or preemption), share 5%.",
            )
        if not rest:
            raise InvalidValue(f"“{head}” of what?", hint=_EXAMPLE[head])
        policy = _changed(policy, head, rest.pop(0).lower())
    return policy


_EXAMPLE = {
    "every": "Write a time, as in every 10m, or every off.",
    "after": "Write a time, as in after 30s, or after off.",
    "before": "Write before shutdown or before preemption; several take one before each.",
    "share": "Write a part of the time, as in share 5%.",
}


def _changed(policy: Policy, head: str, value: str) -> Policy:
    if head == "before":
        try:
            return replace(policy, before=policy.before | {Before("shutdown" if value == "cull" else value)})
        except ValueError:
            raise InvalidValue(f"Nothing is saved before “{value}”.", hint=_EXAMPLE[head]) from None
    if head == "share":
        return replace(policy, share=_share(value))
    seconds = None if value == "off" else _seconds(head, value)
    return (
        replace(policy, every_seconds=seconds) if head == "every" else replace(policy, after_seconds=seconds)
    )


def _seconds(head: str, value: str) -> float:
    from jupyter_gpupool.core.shares import parse_duration

    seconds = parse_duration(value)
    if seconds < SHORTEST_SECONDS:
        raise InvalidValue(f"“{head} {value}” is too often.", hint=f"At least {SHORTEST_SECONDS:g} s.")
    return seconds


def _share(value: str) -> float:
    try:
        share = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    except ValueError:
        share = 0.0
    if not 0 < share <= 0.5:
        raise InvalidValue(
            f"“{value}” is not a share of the time.", hint="Write more than 0 and at most 50%, as in 5%."
        )
    return share


@dataclass(slots=True)
class Pacer:
    """Says when to save, and how long that may take.

    Attributes
    ----------
    policy : Policy
        What was asked for.
    since : float
        When the last save, or try, ended: seconds of a clock that never goes back. At first: when it began.
    """

    policy: Policy
    since: float
    #: What the next save will probably cost, seconds; 0 when nobody knows.
    _expected: float = 0.0
    #: Whether a cell has run since the last save, and a long one.
    _changed: bool = field(default=False)
    _long: bool = field(default=False)
    _saved: float | None = None

    def cell_ended(self, seconds: float) -> None:
        """Note that a cell has run so long."""
        self._changed = True
        after = self.policy.after_seconds
        self._long = self._long or (after is not None and seconds >= after)

    def due_at(self) -> float | None:
        """Return when to save next; None when there is nothing to save. It may be in the past."""
        if not self._changed:
            return None
        times = [self._last + self.policy.every_seconds] if self.policy.every_seconds is not None else []
        times += [self.since] if self._long else []
        return max(min(times), self.since + self._expected / self.policy.share) if times else None

    def budget_seconds(self, now: float) -> float:
        """Return how long a save that begins now may keep the kernel."""
        return min(LONGEST_SECONDS, self.policy.share * max(0.0, now - self.since))

    def saved(self, now: float, seconds: float) -> None:
        """Note that a save ended now, after keeping the kernel so long."""
        self.since = self._saved = now
        self._expected = seconds
        self._changed = self._long = False

    def cut(self, now: float, seconds: float) -> None:
        """Note that a save was given up now, because it would have kept the kernel for longer than it may."""
        self.since = now
        self._expected = min(_AGAIN * seconds, LONGEST_SECONDS)

    def failed(self, now: float, seconds: float) -> None:
        """Note that a save failed now."""
        self.saved(now, seconds)

    @property
    def _last(self) -> float:
        """When the state was saved last, or when it began to be new."""
        return self.since if self._saved is None else self._saved
