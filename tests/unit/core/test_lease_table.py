"""The table of what may happen to a lease."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpupool.core.errors import IllegalTransition
from jupyter_gpupool.core.leases import (
    LEASE_TRANSITIONS,
    Holder,
    Lease,
    LeaseEvent,
    LeaseState,
    next_state,
)
from jupyter_gpupool.testing import a_want

LEASE = Lease(
    id="lease_1",
    owner="ann",
    holder=Holder(key="k"),
    want=a_want(),
    state=LeaseState.QUEUED,
    requested_ms=0,
    requested_wall_ms=0,
)
PAIRS = [(state, event) for state in LeaseState for event in LeaseEvent]


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda it: it.value)
def test_an_event_leads_where_the_table_says_or_is_refused(state: LeaseState, event: LeaseEvent) -> None:
    lease = replace(LEASE, state=state)
    if event in LEASE_TRANSITIONS[state]:
        assert next_state(lease, event) is LEASE_TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransition, match=f"lease_1 is {state.value}"):
            next_state(lease, event)


def test_every_state_has_a_row_and_every_event_is_legal_somewhere() -> None:
    assert set(LEASE_TRANSITIONS) == set(LeaseState)
    assert {event for row in LEASE_TRANSITIONS.values() for event in row} == set(LeaseEvent)


def test_an_ended_lease_stays_ended() -> None:
    assert LEASE_TRANSITIONS[LeaseState.ENDED] == {}


def test_every_state_can_reach_the_end() -> None:
    for start in LeaseState:
        reached, todo = {start}, [start]
        while todo:
            fresh = set(LEASE_TRANSITIONS[todo.pop()].values()) - reached
            reached |= fresh
            todo += fresh
        assert LeaseState.ENDED in reached


def test_a_share_is_never_given_up_without_a_word_from_the_agent() -> None:
    """From where a holder may be under limits, only a confirmed detach or a lost agent leads to the end."""
    for state in (LeaseState.ACTIVE, LeaseState.ENDING):
        ends = {event for event, after in LEASE_TRANSITIONS[state].items() if after is LeaseState.ENDED}
        assert ends <= {LeaseEvent.DETACHED, LeaseEvent.AGENT_LOST}
