"""For how long leases were held, what follows for those that are held, and how good that is."""

from __future__ import annotations

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.estimates import HeldBefore, History, Spread
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.testing import PoolDriver, a_device
from tests.support.pools import MakePool

MINUTE = 60_000


def a_history(*minutes: int, owner: str = "ann") -> History:
    return History(HeldBefore(owner, it * MINUTE) for it in minutes)


def in_minutes(spread: Spread | None) -> tuple[int, ...] | None:
    return None if spread is None else tuple(it // MINUTE for it in spread)


def test_of_too_few_holds_nothing_follows() -> None:
    assert a_history(1, 2, 3, 4).hold("ann") is None


def test_quantiles_are_read_off_an_owners_own_holds() -> None:
    history = a_history(*range(1, 11))
    for _ in range(30):
        history.learn(HeldBefore("bob", 500 * MINUTE))
    assert in_minutes(history.hold("ann")) == (2, 6, 10)
    assert in_minutes(history.hold("bob")) == (500, 500, 500)


def test_whoever_is_new_is_taken_for_one_of_the_pool() -> None:
    assert in_minutes(a_history(*range(1, 11)).hold("new")) == (2, 6, 10)


def test_what_was_held_for_a_while_already_is_compared_with_what_was_held_for_longer() -> None:
    assert in_minutes(a_history(*range(1, 11)).hold("ann", 8 * MINUTE)) == (9, 10, 10)


def test_what_lasts_longer_than_everything_known_is_expected_to_last_as_long_again() -> None:
    low, middle, high = a_history(*range(1, 11)).hold("ann", 90 * MINUTE) or Spread(0, 0, 0)
    assert 90 * MINUTE < low < middle == 180 * MINUTE < high


def test_only_the_latest_holds_count() -> None:
    history = a_history(*[1] * 100)
    for _ in range(60):
        history.learn(HeldBefore("ann", 7 * MINUTE))
    assert in_minutes(history.hold("ann")) == (7, 7, 7)


def test_memory_is_bounded_whatever_comes() -> None:
    history = History()
    for number in range(20_000):
        history.learn(HeldBefore(f"owner-{number}", number))
        history.tell(f"lease-{number}", Spread(0, 0, 0))
    assert len(history._owners) <= 4096
    assert len(history._told) <= 4096
    assert len(history._pool) <= 384


def test_a_pool_learns_from_leases_that_end(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    for _ in range(6):
        lease_id = pool.hold(1000)
        pool.advance(10 * MINUTE)
        pool.end(lease_id)
    held = pool.lease(pool.hold(1000))
    ledger = pool.pool._ledger
    assert hooks.expected_end_ms(ledger, held, pool.now_ms) == pool.now_ms + 10 * MINUTE


def test_what_was_never_in_use_teaches_nothing(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"))
    for _ in range(10):
        pool.release(pool.request(1000))
        pool.advance(MINUTE)
    assert pool.pool._ledger.history.hold("ann") is None


def test_a_pool_is_told_at_its_start_what_the_journal_knows() -> None:
    driver = PoolDriver([a_device("cuda0")])
    holds = [HeldBefore("ann", MINUTE)] * 5
    pool = Pool(driver.config, holds=holds)
    assert pool._ledger.history.hold("ann") == Spread(MINUTE, MINUTE, MINUTE)
    again = pool.rebuilt([], now_ms=0)
    assert again._ledger.history.hold("ann") == Spread(MINUTE, MINUTE, MINUTE)


def test_the_first_in_line_is_expected_when_its_devices_are_by_history(a_pool: MakePool) -> None:
    pool = a_pool(a_device("cuda0"), a_device("cuda1"))
    for minutes in (10, 10, 10, 10, 10):
        lease_id = pool.hold(1000)
        pool.advance(minutes * MINUTE)
        pool.end(lease_id)
    pool.hold(1000)
    pool.advance(4 * MINUTE)
    pool.hold(1000)
    first = pool.request(1000, owner="bob")
    (blocked,) = pool.pool._queue.blocked(pool.now_ms)
    assert blocked.lease.id == first
    assert len(blocked.reserved) == 1
    assert blocked.expected_ms == pool.now_ms + 6 * MINUTE
