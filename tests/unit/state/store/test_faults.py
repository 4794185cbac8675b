"""What goes wrong: killed at every step, no room, flipped bytes. What was saved before is always there."""

from __future__ import annotations

import errno
import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_gpupool.state.errors import SnapshotDamaged, StateError, StoreFull
from jupyter_gpupool.state.store.store import Store
from tests.support.snapshot_stores import (
    CHUNK,
    KEY,
    FaultyFiles,
    Killed,
    load,
    local_store,
    save,
    stopped,
    synthesize,
)

CHANCE = random.Random(7)
FIRST = [CHANCE.randbytes(CHUNK + 9), b"small"]
SECOND = [FIRST[0][:CHUNK] + b"end", CHANCE.randbytes(2 * CHUNK), b"other", bytes(50_000)]


def faulty(root: Path, *, step: int = -1, code: int = 0) -> tuple[Store, FaultyFiles]:
    files = FaultyFiles(root, step=step, code=code)
    return Store(files, owner="ann", keys=[KEY]), files


def steps_of(work: Callable[[Store], object], root: Path) -> int:
    store, files = faulty(root)
    work(store)
    return files.steps


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Make a store with one snapshot in it."""
    save(local_store(tmp_path / "begun"), b"first", *FIRST, name="first")
    return tmp_path / "begun"


def save_second(store: Store) -> None:
    save(store, b"second", *SECOND, name="second")


def check_first(root: Path) -> Store:
    store = local_store(root)
    assert load(store, "first") == (b"first", FIRST)
    assert store.damaged() == {}
    assert store.verify() == []
    return store


@pytest.mark.parametrize("code", [0, errno.ENOSPC])
def test_a_save_that_stops_at_any_step_leaves_what_was_saved_before(
    begun: Path, tmp_path: Path, code: int
) -> None:
    shutil.copytree(begun, tmp_path / "count")
    steps = steps_of(save_second, tmp_path / "count")
    assert steps >= 6
    for step in range(steps):
        root = tmp_path / f"step-{step}"
        shutil.copytree(begun, root)
        with pytest.raises(StoreFull if code else Killed):
            save_second(faulty(root, step=step, code=code)[0])
        store = check_first(root)
        assert [manifest.name for manifest in store.list()] == ["first"], step
        store.gc()
        files = sorted(path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file())
        assert files == ["lock", "packs", "packs", "snapshots"], step
        save_second(store)
        assert load(store, "second") == (b"second", SECOND)


def test_collecting_that_is_killed_at_any_step_takes_nothing_that_is_needed(
    begun: Path, tmp_path: Path
) -> None:
    store = local_store(begun)
    save_second(store)
    save(store, b"third", SECOND[1][:CHUNK], CHANCE.randbytes(CHUNK), name="third")
    store.forget("second")
    shutil.copytree(begun, tmp_path / "count")
    steps = steps_of(lambda store: store.gc(), tmp_path / "count")
    assert steps >= 3
    for step in range(steps):
        root = tmp_path / f"step-{step}"
        shutil.copytree(begun, root)
        with stopped():
            faulty(root, step=step)[0].gc()
        store = check_first(root)
        assert load(store, "third")[1][0] == SECOND[1][:CHUNK]
        store.gc()
        check_first(root)
        assert load(store, "third")[1][0] == SECOND[1][:CHUNK]


def test_no_room_is_said_with_the_next_step(begun: Path) -> None:
    store, _ = faulty(begun, step=1, code=errno.ENOSPC)
    with pytest.raises(StoreFull, match=r"There is no room for the snapshot in .*before is there. Make room"):
        save_second(store)


def test_a_limit_on_the_size_of_files_is_no_room(begun: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * CHUNK, limits[1]))
    try:
        with pytest.raises(StoreFull):
            save_second(local_store(begun))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [manifest.name for manifest in check_first(begun).list()] == ["first"]
    assert len(list(begun.glob("packs/*"))) == 2


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << CHANCE.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("ending", [".pack", ".index", ".snapshot"])
def test_a_flipped_byte_is_found_wherever_it_is(begun: Path, tmp_path: Path, ending: str) -> None:
    path = next(begun.rglob(f"*{ending}"))
    length = path.stat().st_size
    places = {0, 16, 48, 80, length - 1, *CHANCE.sample(range(length), 12)}
    for place in places:
        root = tmp_path / f"flip-{place}"
        shutil.copytree(begun, root)
        flip(root / path.relative_to(begun), place)
        store = local_store(root)
        try:
            right = load(store, "first") == (b"first", FIRST)
        except StateError:
            right = False
            damage = store.verify()
            named = " ".join(f"{each.snapshot} {each.reason}" for each in damage)
            assert path.stem[:12] in named or "first" in named
        if right:  # what lies between the chunks of a pack means nothing
            assert ending == ".pack"
            assert store.verify() == []


def test_a_flipped_byte_names_the_snapshot_and_mending_heals_it_with_the_next_save(begun: Path) -> None:
    store = local_store(begun)
    pack = next(begun.glob("packs/*.pack"))
    save(store, b"second", FIRST[0], name="second")
    flip(pack, pack.read_bytes().index(FIRST[0][:64]) + 100_000)
    with pytest.raises(SnapshotDamaged, match=r"“first” .* is damaged: its chunk .* is not what was saved"):
        load(store, "first")
    damage = store.verify(mend=True)
    assert {each.name for each in damage} == {"first", "second"}
    assert all(len(each.chunks) == 1 for each in damage)
    with pytest.raises(SnapshotDamaged, match="is in no pack"):
        load(store, "first")
    save(store, b"third", FIRST[0], name="third")
    check_first(begun)


def test_a_pack_that_is_gone_or_cut_is_said_and_nothing_new_leans_on_it(begun: Path) -> None:
    pack = next(begun.glob("packs/*.pack"))
    whole = pack.read_bytes()
    for data in (whole[: len(whole) // 2], None):
        pack.unlink()
        if data is not None:
            pack.write_bytes(data)
        store = local_store(begun)
        with pytest.raises(SnapshotDamaged, match=r"The pack .* has \d+ bytes of \d+"):
            load(store, "first")
        assert [each.name for each in store.verify()] == ["first"]
        save(store, b"second", FIRST[0], name="second")
        assert load(store, "second")[1] == [FIRST[0]]
        store.forget("second")


def test_nothing_is_collected_while_a_snapshot_cannot_be_read(begun: Path) -> None:
    store = local_store(begun)
    save_second(store)
    second = store.find("second")
    flip(begun / "snapshots" / f"{second.id}.snapshot", 200)
    store = local_store(begun)
    assert store.damaged().keys() == {second.id}
    with pytest.raises(SnapshotDamaged, match="damaged"):
        store.open(second.id)
    packs = len(list(begun.glob("packs/*.pack")))
    collected = store.gc()
    assert "forget that snapshot first" in collected.reason
    assert len(list(begun.glob("packs/*.pack"))) == packs
    store.forget(second.id)
    assert store.gc().reason == ""
    assert len(list(begun.glob("packs/*.pack"))) == packs - 1
    check_first(begun)


def test_a_damaged_catalogue_is_not_believed(tmp_path: Path) -> None:
    synthesize(tmp_path, 70)
    assert len(local_store(tmp_path).list()) == 70
    cache = tmp_path / "cache" / "snapshots"
    assert cache.exists()
    flip(cache, 3000)
    assert len(local_store(tmp_path).list()) == 70
    assert local_store(tmp_path).damaged() == {}
