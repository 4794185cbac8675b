"""The watch on what a holder uses: a course of use in, what is told and demanded out."""

from __future__ import annotations

import pytest

from jupyter_gpupool.backends.base import Demand
from jupyter_gpupool.backends.nvidia.watchdog import WatchState, breach, step
from jupyter_gpupool.backends.rules import Action, NodeRules

SHARE = 1000
NO, WARNED, OVER = "", "of its", "more than its share"


def course(
    action: Action, *uses: int | None, grace: float = 3.0, percent: float = 90.0
) -> list[tuple[str, Demand | None]]:
    """Return the kind of notice, and the demand, of each second."""
    rules = NodeRules(over_limit=action, grace_seconds=grace, warn_percent=percent)
    state, found = WatchState(), []
    for second, used in enumerate(uses):
        verdict = step(state, used, SHARE, float(second), rules, "cuda0")
        state = verdict.state
        kinds = [kind for kind in (OVER, WARNED) if kind in verdict.notice]
        found.append((kinds[0] if kinds else NO, verdict.demand))
    return found


def test_from_nine_tenths_on_it_is_warned() -> None:
    assert course(Action.WARN, 0, 899, 900, 1000) == [(NO, None), (NO, None), (WARNED, None), (WARNED, None)]


def test_a_warning_does_not_flicker() -> None:
    assert [told for told, _ in course(Action.WARN, 900, 880, 899, 869, 880)] == [
        WARNED,
        WARNED,
        WARNED,
        NO,
        NO,
    ]


def test_who_only_warns_demands_nothing_ever() -> None:
    assert course(Action.WARN, *[1100] * 6) == [(OVER, None)] * 6


def test_after_the_grace_it_is_interrupted_and_after_another_again() -> None:
    demands = [demand for _, demand in course(Action.INTERRUPT, *[1100] * 8)]
    stop = Demand.INTERRUPT
    assert demands == [None, None, None, stop, None, None, stop, None]


def test_an_end_is_demanded_once() -> None:
    demands = [demand for _, demand in course(Action.END, *[1100] * 6)]
    assert demands == [None, None, None, Demand.END, None, None]


def test_who_goes_below_in_time_starts_anew() -> None:
    demands = [demand for _, demand in course(Action.END, 1100, 1100, 500, 1100, 1100, 1100, 1100)]
    assert demands == [None, None, None, None, None, None, Demand.END]


def test_without_a_grace_it_acts_at_once() -> None:
    assert course(Action.END, 1100, grace=0.0) == [(OVER, Demand.END)]


def test_unknown_use_is_neither_too_much_nor_fine() -> None:
    assert course(Action.END, 1100, None, 1100, 1100) == [
        (OVER, None),
        (NO, None),
        (OVER, None),
        (OVER, Demand.END),
    ]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (Action.WARN, "It left MPS: restart the kernel."),
        (
            Action.END,
            "It left MPS: restart the kernel. If it goes on for 30 s, its processes are ended.",
        ),
    ],
)
def test_any_other_breach_goes_the_same_way(action: Action, sentence: str) -> None:
    rules = NodeRules(over_limit=action, grace_seconds=30.0)
    assert breach(WatchState(), "It left MPS", 0.0, rules, "restart the kernel").notice == sentence
