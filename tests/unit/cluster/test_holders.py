"""Records of holders on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.backends.base import Attachment, ProcessMark
from jupyter_gpupool.cluster.holders import HolderBook, HolderRecord
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.messages import ShareOrder


def _record(lease_id: str = "lease_1", *, undo: bytes = b'{"rlimit":[1,2]}') -> HolderRecord:
    mark = ProcessMark(pid=7, start_ticks=70)
    share = ShareOrder(device_id="CPU-1", compute_milli=250, memory_bytes=2**30)
    attachment = Attachment(
        lease_id=lease_id,
        share=share,
        holder=mark,
        isolation=[],
        environment={"OMP_NUM_THREADS": "1"},
        threads=1,
        undo=msgspec.Raw(undo),
    )
    return HolderRecord(
        format=names.FORMAT,
        lease_id=lease_id,
        generation=1,
        owner="ann",
        holder=mark,
        attachments=[attachment],
    )


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    HolderBook(tmp_path / "holders").save(_record())
    (read,) = HolderBook(tmp_path / "holders").load()
    assert bytes(read.attachments[0].undo) == b'{"rlimit":[1,2]}'
    assert (read.lease_id, read.holder, read.attachments[0].threads) == (
        "lease_1",
        ProcessMark(pid=7, start_ticks=70),
        1,
    )


def test_records_are_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    book = HolderBook(tmp_path / "holders")
    book.save(_record())
    book.save(_record(undo=b"{}"))
    (path,) = (tmp_path / "holders").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    book.remove("lease_1")
    book.remove("lease_1")
    assert book.load() == []


def test_a_record_that_cannot_be_used_is_put_aside_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = HolderBook(tmp_path / "holders")
    (tmp_path / "holders" / "lease_1.json").write_text("{")
    book.save(_record("lease_2"))
    (tmp_path / "holders" / "lease_2.json").rename(tmp_path / "holders" / "lease_3.json")
    assert book.load() == []
    assert "lease_1.json" in caplog.text
    assert sorted(path.name for path in (tmp_path / "holders").iterdir()) == [
        "lease_1.unreadable",
        "lease_3.unreadable",
    ]


def test_an_id_that_is_no_id_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue):
        HolderBook(tmp_path / "holders").save(_record("../lease"))


def test_a_draft_that_an_agent_was_killed_over_is_removed_by_the_next(tmp_path: Path) -> None:
    book = HolderBook(tmp_path / "holders")
    book.save(_record())
    (tmp_path / "holders" / "lease_2.new").write_text('{"format"')
    assert [record.lease_id for record in book.load()] == ["lease_1"]
    assert [path.name for path in (tmp_path / "holders").iterdir()] == ["lease_1.json"]


def test_limits_beside_a_share_belong_to_the_record_and_to_what_is_told(tmp_path: Path) -> None:
    record = _record()
    beside = msgspec.structs.replace(record.attachments[0], environment={"A": "1", "OMP_NUM_THREADS": "9"})
    beside = msgspec.structs.replace(beside, threads=9, notices=["a notice"])
    record.beside = beside
    HolderBook(tmp_path / "holders").save(record)
    (read,) = HolderBook(tmp_path / "holders").load()
    assert read == record
    reply = read.reply()
    assert reply.environment == {"A": "1", "OMP_NUM_THREADS": "1"}
    assert (reply.threads, reply.notices) == (1, ["a notice"])
