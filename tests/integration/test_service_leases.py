"""Leases over HTTP from a real service with emulated devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pool_process import PoolProcess, running_pool


@pytest.fixture
def pool(pool_environment: dict[str, str]) -> Iterator[PoolProcess]:
    with running_pool(emulate="2xA100-80GB") as running:
        yield running


def test_a_lease_is_granted_with_a_ticket_and_released(pool: PoolProcess) -> None:
    doc = pool.request(250)
    assert doc["state"] == "attaching"
    assert doc["attach"]["ticket"]
    assert doc["memory_bytes"] == doc["shares"][0]["memory_bytes"]
    ended = pool.release(doc["id"])
    assert (ended["state"], ended["end_reason"]) == ("ended", "released")
    assert pool.release(doc["id"])["state"] == "ended"
