"""Whose a snapshot is: the owner's key, and what another one did not write."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.state.errors import IncompatibleSnapshot, NotTrusted, SnapshotDamaged, StoreUnavailable
from jupyter_gpupool.state.store.formats import digest
from jupyter_gpupool.state.store.keys import own_key
from jupyter_gpupool.state.store.opening import open_store
from tests.support.snapshot_stores import load, local_store, save

OTHER = bytes(32)


def test_the_key_is_made_once_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    path, got = tmp_path / "deep" / "key", []
    threads = [threading.Thread(target=lambda: got.append(own_key(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(got) == 8
    assert len(set(got)) == 1
    assert len(got[0]) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["key"]


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    own_key(path)
    path.chmod(0o640)
    with pytest.raises(StoreUnavailable, match=r"can be read by others \(mode 640\).*chmod 600"):
        own_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(InvalidValue, match="has 5 bytes, and needs 32"):
        own_key(path)


def test_what_somebody_else_wrote_is_not_restored_but_can_be_looked_at(tmp_path: Path) -> None:
    save(local_store(tmp_path, key=OTHER), b"evil", name="gift")
    store = local_store(tmp_path)
    assert [manifest.name for manifest in store.list()] == ["gift"]
    with pytest.raises(NotTrusted, match=r"“gift” .* was not written with your key.*--trust"):
        store.open("gift")
    with store.inspect("gift") as reader:
        assert not reader.trusted
        assert reader.details().variables[0].name == "x"
    assert load(store, "gift", trust=True)[0] == b"evil"


def test_a_manifest_that_was_changed_and_hashed_anew_is_not_trusted(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    made = save(store, b"mine", name="mine")
    path = tmp_path / "snapshots" / f"{made.id}.snapshot"
    data = path.read_bytes().replace(b"mine", b"evil", 1)
    path.write_bytes(data[:16] + digest(data[48:]) + data[48:])
    with pytest.raises(NotTrusted):
        local_store(tmp_path).open(made.id)


def test_a_snapshot_under_another_id_is_refused(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    made = save(store, b"mine", name="mine")
    other = "f" * 22
    folder = tmp_path / "snapshots"
    (folder / f"{other}.snapshot").write_bytes((folder / f"{made.id}.snapshot").read_bytes())
    with pytest.raises(SnapshotDamaged, match=f"is a copy of {made.id}"):
        store.open(other)


def test_a_later_format_is_refused_with_the_next_step(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    made = save(store, b"mine", name="mine")
    path = tmp_path / "snapshots" / f"{made.id}.snapshot"
    path.write_bytes(path.read_bytes().replace(b"snap 1", b"snap 2", 1))
    with pytest.raises(IncompatibleSnapshot, match="is in format 2"):
        local_store(tmp_path).find(made.id)
    assert "reads up to 1" in local_store(tmp_path).damaged()[made.id]
    assert local_store(tmp_path).gc().reason
    with pytest.raises(IncompatibleSnapshot, match="Upgrade jupyter_gpupool"):
        local_store(tmp_path).open(made.id)


def test_a_pools_key_and_the_owners_own_both_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_GPUPOOL_DATA_DIR", str(tmp_path / "data"))
    pool = b"p" * 32
    save(open_store(str(tmp_path / "s")), b"alone", name="before the pool")
    save(open_store(str(tmp_path / "s"), keys=[pool]), b"with", name="with the pool")
    assert load(open_store(str(tmp_path / "s"), keys=[pool]), "before the pool")[0] == b"alone"
    with pytest.raises(NotTrusted):
        open_store(str(tmp_path / "s")).open("with the pool")
    monkeypatch.setenv("JUPYTER_GPUPOOL_DATA_DIR", str(tmp_path / "another node"))
    assert load(open_store(str(tmp_path / "s"), keys=[pool]), "with the pool")[0] == b"with"
    with pytest.raises(InvalidValue, match="has 3 bytes"):
        open_store(str(tmp_path / "s"), keys=[b"abc"])
