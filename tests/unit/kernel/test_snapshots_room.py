"""Automatic snapshots leave a part of the disk free, and are explained once."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from jupyter_gpupool import state
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.kernel.snapshots import firsts, words
from jupyter_gpupool.kernel.snapshots.policy import DEFAULT, parse
from jupyter_gpupool.kernel.snapshots.room import room_bytes
from jupyter_gpupool.kernel.snapshots.settings import read
from jupyter_gpupool.protocol import names
from jupyter_gpupool.state.errors import StoreFull


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_DATA_DIR, str(tmp_path / "data"))
    monkeypatch.delenv(names.ENV_AUTOSAVE, raising=False)


def test_what_may_be_written_leaves_a_part_of_the_disk_free(tmp_path: Path) -> None:
    disk = shutil.disk_usage(tmp_path)
    room = room_bytes(str(tmp_path / "not" / "made" / "yet"), 0.1)
    assert room is not None
    assert room <= disk.free - 0.05 * disk.total or room == 0
    assert room_bytes(str(tmp_path), 1.0) == 0
    assert room_bytes(str(tmp_path), 0.0) is None
    assert room_bytes(None, 0.1) is None  # a store elsewhere


def test_a_state_that_needs_more_than_may_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = state.open_store(str(tmp_path / "store"))
    values = {"noise": bytearray(b"".join(number.to_bytes(4, "little") for number in range(300_000)))}
    with pytest.raises(StoreFull, match="may be written"):
        state.stage(values, store=store, sections=False, most_bytes=1000).write()
    assert store.list() == []
    state.stage(values, store=store, sections=False, most_bytes=10_000_000).write()
    state.stage(values, store=store, sections=False, most_bytes=10_000).write()  # nothing of it is new
    assert len(store.list()) == 2


def test_it_is_explained_once_to_a_user_in_a_private_file(tmp_path: Path) -> None:
    assert firsts.first_time("autosave")
    assert not firsts.first_time("autosave")
    assert firsts.first_time("something else")
    (folder,) = (tmp_path / "data").rglob(firsts.SAID_FOLDER)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_explanation_says_what_was_done_when_and_how_to_end_it(tmp_path: Path) -> None:
    store = state.open_store(str(tmp_path / "store"))
    saved = state.capture({"x": 1}, store=store, sections=False, automatic=True)
    said = words.first_autosave(saved.manifest, DEFAULT, store.url)
    for part in (
        str(tmp_path / "store"),
        "every 10 min, before shutdown",
        "`%gpupool autosave off`",
        '"off"',
    ):
        assert part in said


def test_the_default_is_followed_where_nobody_chose_and_one_that_was_chosen_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (read(None).policy, read(None).chosen) == (DEFAULT, False)
    monkeypatch.setenv(names.ENV_AUTOSAVE, "off, before preemption")
    assert (str(read(None).policy).partition(";")[0], read(None).chosen) == ("before preemption", True)
    with pytest.raises(InvalidValue):
        parse(["sometimes"])
