"""What is seen of somebody else's lease: nothing that names them, unless that is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from jupyter_gpupool.service.auth import OWNERS, Principal, Scope
from jupyter_gpupool.service.hub import page
from jupyter_gpupool.service.lease_views import LeaseViews
from tests.support.fake_pool import lease_doc, pool_doc
from tests.support.service_bench import ServiceBench

BOB = Principal(owner="bob")
BOSS = Principal(owner="boss", administrator=True, scopes=OWNERS | {Scope.ADMIN})


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ServiceBench]:
    opened = await ServiceBench(tmp_path / "d" / "journal.sqlite3").open()
    yield opened
    await opened.close()


def views(bench: ServiceBench, *, show_owners: bool) -> LeaseViews:
    return LeaseViews(
        host=bench.host,
        book=bench.book,
        tickets=bench.tickets,
        clock=bench.clock,
        idleness=bench.idleness,
        show_owners=show_owners,
    )


@pytest.mark.asyncio
async def test_owners_are_shown_where_that_is_wanted_and_what_is_theirs_never(bench: ServiceBench) -> None:
    lease = await bench.granted(owner="ann")
    for shown in (False, True):
        seen = views(bench, show_owners=shown).lease(lease, BOB)
        assert seen.owner == ("ann" if shown else "")
        assert (seen.mine, seen.holder.label, seen.attach) == (False, "", None)
        assert lease.id not in msgspec.json.encode(seen).decode()
        assert views(bench, show_owners=shown).lease(lease, BOSS).owner == "ann"


def test_who_is_no_administrator_has_no_form_to_end_what_others_hold() -> None:
    pool = pool_doc(leases=[lease_doc(mine=False, owner="ann")])
    text = page.overview(pool, None, proof="proof", prefix="/services/gpupool/")
    assert "ann" in text
    assert "<form" not in text
    assert "proof" not in text
    assert 'action="/services/gpupool/end"' in page.overview(pool, [], proof="p", prefix="/services/gpupool/")
