"""The journal, on how owners stand and what was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.cluster.journal_rows import owners_changed
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import Holder, Lease, LeaseEvent, LeaseState, Want
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.core.quotas.usage import OwnerUsage


def a_lease(number: int = 1, state: LeaseState = LeaseState.QUEUED, owner: str = "ann") -> Lease:
    return Lease(
        id=f"lease_{number:04d}",
        owner=owner,
        holder=Holder(key="k"),
        want=Want(compute_milli=250),
        state=state,
        requested_ms=5,
        requested_wall_ms=0,
    )


def written(lease: Lease, before: LeaseState | None = None, event: LeaseEvent | None = None) -> WriteDown:
    return WriteDown(lease=lease, before=before, event=event, now_ms=10, wall_ms=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d" / "journal.sqlite3"


ROW = OwnerUsage(
    owner="ann",
    kind=DeviceKind.CUDA,
    at_ms=7,
    used_milli_ms=2**55,
    attained_milli_ms=3,
    week_start_ms=1_700_000_000_000,
    week_milli_ms=4,
)


def test_are_written_with_the_transitions_that_change_them(path: Path) -> None:
    journal = Journal.open(path)
    lease = written(a_lease())
    journal.commit([lease], now_ms=1, wall_ms=1, standings=[ROW])
    other = replace(ROW, kind=DeviceKind.CPU)
    journal.commit([lease], now_ms=2, wall_ms=2, standings=[replace(ROW, at_ms=8), other])
    journal.close()
    again = Journal.open(path)
    assert again.standings() == [other, replace(ROW, at_ms=8)]
    again.close()


def test_are_kept_for_owners_who_hold_something_else() -> None:
    queued, active = a_lease(1, owner="ann"), a_lease(2, LeaseState.ACTIVE, owner="bob")
    granted = written(a_lease(3, LeaseState.ATTACHING, owner="cyd"), LeaseState.QUEUED, LeaseEvent.GRANTED)
    attached = written(active, LeaseState.ATTACHING, LeaseEvent.ATTACHED)
    cancelled = written(a_lease(4, LeaseState.ENDED, owner="dee"), LeaseState.QUEUED, LeaseEvent.RELEASED)
    ended = written(a_lease(5, LeaseState.ENDED, owner="eve"), LeaseState.ENDING, LeaseEvent.DETACHED)
    assert owners_changed([written(queued), granted, attached, cancelled, ended]) == {"cyd", "eve"}


def test_what_was_asked_for_comes_back_as_it_was_counted(path: Path) -> None:
    journal = Journal.open(path)
    plain, picky = Shape(0, 250, 1, ()), Shape(8000, 1000, 4, ("A100-80GB", "H100"))
    journal.write_demand([(plain, 3), (picky, 1)])
    journal.write_demand([(plain, 5)])
    journal.close()
    again = Journal.open(path)
    assert dict(again.demand()) == {plain: 5, picky: 1}
    again.close()


def test_how_good_estimates_were_survives_a_restart(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.sqlite3")
    assert journal.judged() == ""
    journal.write_judged("10")
    journal.write_judged("1011")
    journal.close()
    again = Journal.open(tmp_path / "journal.sqlite3")
    pool = Pool(PoolConfig(), judged=again.judged())
    assert (pool.accuracy, pool.judged) == ((4, 3), "1011")
    again.close()
