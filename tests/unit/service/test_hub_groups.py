"""Users in groups of the quotas, as a Hub says: the rules that hold follow, and what is held stays held."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.quotas import Amount, Group, Limits, Quotas, Rules
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.service.hub.groups import GROUPS_FILE, HubGroups
from tests.support.service_bench import ServiceBench

pytestmark = pytest.mark.asyncio


def at_most(milli: int) -> Rules:
    return Rules(limits=Limits(compute_milli=Amount.each(milli)))


QUOTAS = Quotas(
    groups=(
        Group(name="class", rules=at_most(500)),
        Group(name="staff", owners=frozenset({"boss"})),
        Group(name="assistants", parent="class", rules=at_most(250)),
    )
)


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    config = PoolConfig(quotas=QUOTAS)
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3", config=config).open()
    yield opened
    await opened.close()


def group_of(bench: ServiceBench, owner: str) -> str:
    book = bench.host.pool.usage
    assert isinstance(book, Book)
    return book.quotas.group_of.get(owner, "")


async def test_a_request_after_the_hub_said_it_counts_in_the_group_of_now(
    bench: ServiceBench, tmp_path: Path
) -> None:
    groups = HubGroups(bench.host, tmp_path / GROUPS_FILE)
    before = await bench.granted(750, owner="ann")
    groups.said("ann", ["class", "chess"])
    with pytest.raises(GPUPoolError, match="class"):
        await bench.host.submit(bench.requested(750, owner="ann"))
    assert bench.host.leases[before.id].state is LeaseState.ATTACHING, "what is held stays held"
    groups.said("ann", ["chess"])
    waiting = bench.requested(500, owner="ann")
    await bench.host.submit(waiting)
    assert bench.host.leases[waiting.lease_id].state is LeaseState.QUEUED, "there is no room"


async def test_what_waits_because_of_the_group_is_granted_when_its_owner_leaves_it(
    bench: ServiceBench, tmp_path: Path
) -> None:
    groups = HubGroups(bench.host, tmp_path / GROUPS_FILE)
    for owner in ("ann", "bob"):
        groups.said(owner, ["class"])
    await bench.granted(400, owner="ann")
    waiting = bench.requested(300, owner="bob")
    await bench.host.submit(waiting)
    assert bench.host.leases[waiting.lease_id].state is LeaseState.QUEUED
    assert "class" in bench.host.pool.reason(waiting.lease_id)
    groups.said("bob", [])
    await bench.until(lambda: bench.host.leases[waiting.lease_id].state is LeaseState.ATTACHING)
    bench.host.pool.check_invariants()


async def test_of_several_groups_the_innermost_counts_and_the_file_comes_first(
    bench: ServiceBench, tmp_path: Path
) -> None:
    groups = HubGroups(bench.host, tmp_path / GROUPS_FILE)
    for owner in ("ann", "boss"):
        groups.said(owner, ["class", "staff", "assistants"])
    groups.said("cat", ["nothing-of-ours"])
    await bench.until(lambda: group_of(bench, "ann"))
    assert {it: group_of(bench, it) for it in ("ann", "boss", "cat")} == {
        "ann": "assistants",
        "boss": "staff",
        "cat": "",
    }


async def test_what_the_hub_said_last_holds_over_a_restart(bench: ServiceBench, tmp_path: Path) -> None:
    place = tmp_path / GROUPS_FILE
    HubGroups(bench.host, place).said("ann", ["class"])
    again = await ServiceBench(tmp_path / "e" / "journal.sqlite3", config=PoolConfig(quotas=QUOTAS)).open()
    HubGroups(again.host, place)
    await again.until(lambda: group_of(again, "ann") == "class")
    await again.close()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"ann": 5}', b'{"ann": "gone"}', b"\xff"])
async def test_a_file_that_cannot_be_read_keeps_nobody_out(
    bench: ServiceBench, tmp_path: Path, content: bytes
) -> None:
    place = tmp_path / GROUPS_FILE
    place.write_bytes(content)
    groups = HubGroups(bench.host, place)
    groups.said("bob", ["class"])
    await bench.until(lambda: group_of(bench, "bob") == "class")
    assert group_of(bench, "ann") == ""


async def test_the_same_again_changes_nothing(bench: ServiceBench, tmp_path: Path) -> None:
    groups = HubGroups(bench.host, tmp_path / GROUPS_FILE)
    groups.said("ann", ["class"])
    await bench.until(lambda: group_of(bench, "ann") == "class")
    pool = bench.host.pool
    for _ in range(3):
        groups.said("ann", ["class"])
    await bench.granted(100, owner="ann")
    assert bench.host.pool is pool
    assert bench.host.pool.devices[next(iter(pool.devices))].kind is DeviceKind.CUDA
