"""The watch on what a holder uses of its memory share: warn, wait, act.

Rules of this module: a pure state machine; unknown use is neither too much nor fine; a warning goes when the
use has gone down noticeably, so that it does not flicker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jupyter_gpupool.backends.base import Demand
from jupyter_gpupool.backends.rules import Action, NodeRules
from jupyter_gpupool.core.shares import format_duration, format_memory

#: How far below the warning the use has to be until the warning goes, percent of the share.
_HYSTERESIS_PERCENT = 3.0
_DEMANDS = {Action.INTERRUPT: Demand.INTERRUPT, Action.END: Demand.END}
_THREATS = {Action.INTERRUPT: "what it runs is interrupted", Action.END: "its processes are ended"}


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchState:
    """What was seen of one holder.

    Attributes
    ----------
    warned : bool
        True while it uses nearly all of its share.
    over_since : float or None
        Since when it exceeds the share, seconds of a monotonic clock.
    demanded : bool
        True when the grace is over and the action was demanded; an interrupt is demanded again after
        another grace, an end only once.
    """

    warned: bool = False
    over_since: float | None = None
    demanded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What follows from one look.

    Attributes
    ----------
    state : WatchState
        For the next look.
    notice : str
        One sentence for the owner; empty for none.
    demand : Demand or None
        What has to be done now.
    """

    state: WatchState
    notice: str = ""
    demand: Demand | None = None


def step(
    state: WatchState,
    used_bytes: int | None,
    share_bytes: int,
    now_seconds: float,
    rules: NodeRules,
    device: str,
) -> Verdict:
    """Judge one look at a holder.

    Parameters
    ----------
    state : WatchState
        What was seen before.
    used_bytes : int or None
        What all its processes use on the device; None when that is unknown.
    share_bytes : int
        Its share.
    now_seconds : float
        Monotonic clock.
    rules : NodeRules
        When to warn, and what to do.
    device : str
        The device's name, for people.
    """
    if used_bytes is None:
        return Verdict(state=state)
    if used_bytes > share_bytes:
        what = (
            f"This lease uses {format_memory(used_bytes)} on {device}, more than its share of"
            f" {format_memory(share_bytes)}"
        )
        return breach(state, what, now_seconds, rules, "free memory, or resize it")
    percent = 100 * used_bytes / share_bytes
    limit = rules.warn_percent - (_HYSTERESIS_PERCENT if state.warned else 0.0)
    if percent < limit:
        return Verdict(state=WatchState())
    notice = (
        f"This lease uses {format_memory(used_bytes)} of its {format_memory(share_bytes)} on {device}"
        f" ({percent:.0f} %): free some, or resize it."
    )
    return Verdict(state=WatchState(warned=True), notice=notice)


def breach(state: WatchState, what: str, now_seconds: float, rules: NodeRules, remedy: str) -> Verdict:
    """Judge a holder that goes on doing what it may not.

    Parameters
    ----------
    state : WatchState
        What was seen before.
    what : str
        What it does, a sentence without its end.
    now_seconds : float
        Monotonic clock.
    rules : NodeRules
        For how long it may, and what is done then.
    remedy : str
        What its owner can do ("free memory").
    """
    since = now_seconds if state.over_since is None else state.over_since
    demand = _DEMANDS.get(rules.over_limit)
    state = replace(state, warned=True, over_since=since)
    if demand is None:
        return Verdict(state=state, notice=f"{what}: {remedy}.")
    threat = _THREATS[rules.over_limit]
    if now_seconds - since < rules.grace_seconds:
        notice = f"{what}: {remedy}. If it goes on for {format_duration(rules.grace_seconds)}, {threat}."
        return Verdict(state=state, notice=notice)
    if demand is Demand.END and state.demanded:
        return Verdict(state=state, notice=f"{what}: {threat}.")
    # an interrupt may be caught: after another grace it comes again
    again = replace(state, demanded=True, over_since=now_seconds if demand is Demand.INTERRUPT else since)
    return Verdict(state=again, notice=f"{what}: {threat}.", demand=demand)
