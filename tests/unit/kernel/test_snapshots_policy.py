"""When the state is saved by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.kernel.snapshots.policy import DEFAULT, OFF, Before, Pacer, Policy, parse


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("off", OFF),
        ("every 10m", Policy(every_seconds=600.0)),
        ("after 30s", Policy(after_seconds=30.0)),
        ("every 10m, after 1m", Policy(every_seconds=600.0, after_seconds=60.0)),
        ("before shutdown before preemption", Policy(before=frozenset(Before))),
        ("before cull", Policy(before=frozenset({Before.SHUTDOWN}))),
        ("every 1h share 2%", Policy(every_seconds=3600.0, share=0.02)),
        ("EVERY 5s", Policy(every_seconds=5.0)),
    ],
)
def test_what_can_be_asked_for_is_understood(text, policy):
    assert parse(text.split()) == policy


def test_what_is_not_named_stays_as_it_is():
    policy = parse(["every", "10m", "share", "3%"])
    assert parse(["after", "30s"], policy) == Policy(every_seconds=600.0, after_seconds=30.0, share=0.03)
    assert parse(["every", "off"], policy) == Policy(share=0.03)
    assert parse(["off"], policy) == Policy(share=0.03)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("often", "“often” is not a way to save by itself"),
        ("every", "“every” of what"),
        ("every 10", "10"),
        ("every 10ms", "10ms"),
        ("before lunch", "Nothing is saved before “lunch”"),
        ("share 0", "not a share of the time"),
        ("share 80%", "not a share of the time"),
        ("share many", "not a share of the time"),
    ],
)
def test_what_cannot_be_understood_is_said_with_the_next_step(text, said):
    with pytest.raises(InvalidValue, match=said):
        parse(text.split())


def test_a_policy_reads_as_a_sentence():
    assert str(OFF) == "off"
    assert (
        str(DEFAULT) == "every 10 min, before shutdown, before preemption; at most 5 % of the kernel's time"
    )
    assert str(parse(["every", "10m", "after", "30s"])).startswith(
        "every 10 min, after cells longer than 30 s;"
    )


def test_nothing_is_due_while_nothing_has_run():
    pacer = Pacer(Policy(every_seconds=60.0), since=100.0)
    assert pacer.due_at() is None
    pacer.cell_ended(0.1)
    assert pacer.due_at() == 160.0
    pacer.saved(161.0, 0.5)
    assert pacer.due_at() is None


def test_a_long_cell_is_due_at_once_and_a_short_one_is_not():
    pacer = Pacer(Policy(after_seconds=30.0), since=0.0)
    pacer.cell_ended(29.0)
    assert pacer.due_at() is None
    pacer.cell_ended(31.0)
    assert pacer.due_at() == 0.0


def test_what_costs_more_than_the_share_is_put_off():
    pacer = Pacer(Policy(every_seconds=10.0, share=0.05), since=0.0)
    pacer.cell_ended(1.0)
    pacer.saved(10.0, 2.0)
    pacer.cell_ended(1.0)
    assert pacer.due_at() == 10.0 + 2.0 / 0.05


def test_what_was_cut_short_is_tried_again_with_twice_the_time():
    pacer = Pacer(Policy(every_seconds=10.0, share=0.05), since=0.0)
    pacer.cell_ended(1.0)
    budget = pacer.budget_seconds(10.0)
    assert budget == 0.5
    pacer.cut(10.5, budget)
    due = pacer.due_at()
    assert due == 10.5 + 1.0 / 0.05
    assert pacer.budget_seconds(due) == pytest.approx(2 * budget)


@settings(max_examples=30)
@given(
    share=st.floats(0.001, 0.5),
    costs=st.lists(st.floats(0.001, 20.0), min_size=1, max_size=30),
    every=st.floats(1.0, 100.0),
)
def test_saving_never_takes_more_than_its_share(share, costs, every):
    """A kernel that is saved whenever that is due and allowed, with saves of any cost."""
    pacer, now, spent = Pacer(Policy(every_seconds=every, share=share), since=0.0), 0.0, 0.0
    for cost in costs:
        pacer.cell_ended(0.0)
        now = max(now, pacer.due_at())
        took = min(cost, pacer.budget_seconds(now))
        now, spent = now + took, spent + took
        pacer.saved(now, took) if took == cost else pacer.cut(now, took)
    assert spent <= share * now * (1 + 1e-9)
