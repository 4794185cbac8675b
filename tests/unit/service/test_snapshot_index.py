"""An owner's snapshots: listed as they were told, to that owner only; one key for each owner, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.cluster.journal import JournalUnavailable
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.codec import BadMessage, encode
from jupyter_gpupool.protocol.documents import SnapshotDoc, SnapshotsReport
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.snapshots import STORES, SnapshotIndex
from tests.support.service_bench import ServiceBench

ANN, BEN = Principal(owner="ann"), Principal(owner="ben")
ANNS_KERNEL = Principal(owner="ann", kernel_id="k1")


def doc(number: int, **more: object) -> SnapshotDoc:
    return SnapshotDoc(id=f"snap_{number}", name=f"s{number}", created_ms=number, **more)  # type: ignore[arg-type]


def report(*docs: SnapshotDoc, store: str = "file:/store") -> bytes:
    return encode(SnapshotsReport(store=store, snapshots=list(docs)))


async def bench_and_index(path: Path) -> tuple[ServiceBench, SnapshotIndex]:
    bench = await ServiceBench(path / "journal.db").open(join=False)
    return bench, SnapshotIndex(bench.journal, bench.clock)


@pytest.mark.asyncio
async def test_each_owner_has_one_key_and_keeps_it_over_a_restart(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir(mode=0o700)
    bench, index = await bench_and_index(tmp_path / "p")
    key = await index.key(ANN)
    assert await index.key(ANNS_KERNEL) == key
    assert await index.key(BEN) != key
    assert key.key not in repr(key)
    await bench.close()
    bench, index = await bench_and_index(tmp_path / "p")
    assert await index.key(ANN) == key
    await bench.close()


@pytest.mark.asyncio
async def test_an_owner_sees_what_was_told_of_their_stores_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir(mode=0o700)
    bench, index = await bench_and_index(tmp_path / "p")
    await index.told(ANNS_KERNEL, report(doc(2), doc(1)))
    await index.told(ANN, report(doc(3, store="s3://forged"), store="s3://bucket"))
    assert [(it.id, it.store) for it in await index.of(ANN)] == [
        ("snap_3", "s3://bucket"),
        ("snap_2", "file:/store"),
        ("snap_1", "file:/store"),
    ]
    assert await index.of(BEN) == []
    assert [it.id for it in await index.told(ANN, report(doc(2)))] == ["snap_3", "snap_2"]
    await bench.close()


@pytest.mark.asyncio
async def test_no_owner_fills_the_journal(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir(mode=0o700)
    bench, index = await bench_and_index(tmp_path / "p")
    for number in range(STORES + 3):
        bench.hands.pass_seconds(1)
        await index.told(ANN, report(doc(number), store=f"file:/{number}"))
    assert len(await index.of(ANN)) == STORES
    assert (await index.of(ANN))[-1].store == "file:/3"
    with pytest.raises(InvalidValue, match="101 snapshots"):
        await index.told(ANN, report(*(doc(number) for number in range(101))))
    with pytest.raises(InvalidValue, match="name cannot be used"):
        await index.told(ANN, report(SnapshotDoc(id="a", name="x" * 300, created_ms=1)))
    with pytest.raises(InvalidValue, match="-1 is out of range"):
        await index.told(ANN, report(SnapshotDoc(id="a", name="x", created_ms=-1)))
    with pytest.raises(BadMessage):
        await index.told(ANN, b"[]")
    await bench.close()


@pytest.mark.asyncio
async def test_a_key_that_cannot_be_written_down_is_not_given_out(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir(mode=0o700)
    bench, index = await bench_and_index(tmp_path / "p")
    bench.block_writes()
    with pytest.raises(JournalUnavailable):
        await index.key(ANN)
    bench.allow_writes()
    assert (await index.key(ANN)).key
    await bench.close()
