"""Names, lists, forgetting, retention and collecting."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.state.errors import NoSuchSnapshot
from jupyter_gpupool.state.model import Manifest
from jupyter_gpupool.state.store.formats import seal_manifest
from jupyter_gpupool.state.store.local import LocalFiles
from jupyter_gpupool.state.store.opening import memory_store
from jupyter_gpupool.state.store.retention import Retention, outlived, too_large
from jupyter_gpupool.state.store.store import Store
from tests.support.snapshot_stores import (
    CHUNK,
    ENVIRONMENT,
    KEY,
    SMALL,
    commit,
    load,
    local_store,
    save,
    synthesize,
)

CHANCE = random.Random(9)
DAY = 86_400


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return local_store(tmp_path)


def names(store: Store) -> list[str]:
    return [manifest.name for manifest in store.list()]


def test_a_name_stands_for_the_newest_that_has_it(store: Store) -> None:
    old = save(store, b"old", name="x")
    new = save(store, b"new", name="x")
    save(store, b"other", name="y")
    assert store.find("x") == new
    assert store.find(old.id) == old
    assert load(store, old.id)[0] == b"old"
    assert names(store) == ["y", "x", "x"]


@pytest.mark.parametrize("name", ["größe/x", "with spaces inside", "a/b/../c", "日本語", "x" * 200, "%s{}"])
def test_names_are_text_for_people(store: Store, name: str) -> None:
    save(store, b"it", name=name)
    assert load(store, name)[0] == b"it"
    assert names(store) == [name]


def test_names_are_equal_however_their_accents_are_written(store: Store) -> None:
    save(store, b"it", name="re\u0301sume\u0301 ")
    assert store.find("r\u00e9sum\u00e9").name == "r\u00e9sum\u00e9"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (" ", "is empty"),
        ("x" * 300, "has 300 characters, and may have 200"),
        ("a\nb", "cannot be shown"),
        ("a\x00", "cannot be shown"),
        ("0" * 22, "looks like the id"),
    ],
)
def test_what_cannot_be_a_name_is_refused_before_anything_is_saved(
    store: Store, name: str, says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        save(store, b"it", name=name)
    assert store.list() == []


def test_an_automatic_snapshot_needs_no_name(store: Store) -> None:
    made = save(store, b"it", automatic=True)
    assert store.find(made.id).automatic
    assert store.find(made.id[:14]) == made


def test_a_name_that_is_not_there_is_said_with_those_that_are_near(store: Store) -> None:
    with pytest.raises(NoSuchSnapshot, match="none was saved yet"):
        store.find("model")
    save(store, b"it", name="modal")
    save(store, b"it", name="data")
    with pytest.raises(NoSuchSnapshot, match=r"There is no snapshot 'model'. There is 'modal'"):
        store.open("model")
    with pytest.raises(NoSuchSnapshot):
        store.find("")


def test_ids_are_in_the_order_of_saving_even_when_the_clock_goes_back(tmp_path: Path) -> None:
    first = save(local_store(tmp_path), b"it")
    late = msgspec.structs.replace(first, id=f"{int(first.id[:12], 16) + 3_600_000:012x}{'0' * 10}")
    (tmp_path / "snapshots" / f"{late.id}.snapshot").write_bytes(seal_manifest(late, KEY))
    assert save(local_store(tmp_path), b"it").id > late.id


def test_forgetting_a_name_forgets_all_that_have_it_and_an_id_only_one(store: Store) -> None:
    first = save(store, b"1", name="x")
    save(store, b"2", name="x")
    save(store, b"3", name="x")
    assert store.forget(first.id) == [first]
    assert len(store.forget("x")) == 2
    assert store.list() == []
    with pytest.raises(NoSuchSnapshot):
        store.forget("x")


def test_forgotten_bytes_come_back_and_shared_ones_stay(store: Store, tmp_path: Path) -> None:
    shared, own = CHANCE.randbytes(4 * CHUNK), CHANCE.randbytes(4 * CHUNK)
    save(store, b"a", shared, own, name="a")
    save(store, b"b", shared, name="b")
    used = store.usage().used_bytes
    assert store.gc().freed_bytes == 0
    store.forget("a")
    collected = store.gc()
    assert 4 * CHUNK <= collected.freed_bytes < 5 * CHUNK
    assert store.usage().used_bytes <= used - 4 * CHUNK
    for again in (store, local_store(tmp_path)):
        assert load(again, "b")[1] == [shared]
        assert again.verify() == []
    assert store.gc().freed_bytes == 0
    store.forget("b")
    store.gc()
    assert [path.name for path in tmp_path.rglob("packs/*")] == []


class NoHoles(LocalFiles):
    """A file system that cannot make holes."""

    def punch(self, path: str, ranges: list[tuple[int, int]]) -> bool:
        return False


@pytest.mark.parametrize("kind", ["memory", "no holes"])
def test_without_holes_packs_are_written_anew(tmp_path: Path, kind: str) -> None:
    store = memory_store() if kind == "memory" else Store(NoHoles(tmp_path), owner="ann", keys=[KEY])
    keep, drop = CHANCE.randbytes(CHUNK), CHANCE.randbytes(4 * CHUNK)
    save(store, b"a", keep, drop, name="a")
    save(store, b"b", keep, name="b")
    with store.open("b") as reader:  # opened before, read after
        store.forget("a")
        assert store.gc().freed_bytes > 3 * CHUNK
        assert reader.read(reader.details().roots[0].chunks) == keep
    assert store.usage().used_bytes < 2 * CHUNK
    assert store.verify() == []


def test_a_pack_that_is_mapped_keeps_its_bytes(store: Store) -> None:
    import fcntl

    keep, drop = CHANCE.randbytes(3 * CHUNK), CHANCE.randbytes(2 * CHUNK)
    save(store, b"a", keep, drop, name="a")
    save(store, b"b", keep, name="b")
    with store.open("a") as reader:
        places = reader.places(reader.details().roots[1].chunks)
    assert places
    place = places[0]
    with Path(place.path).open("rb") as mapped:
        fcntl.flock(mapped, fcntl.LOCK_SH)
        store.forget("a")
        store.gc()
        mapped.seek(place.offset)
        assert mapped.read(CHUNK) == drop[:CHUNK]
    assert load(store, "b")[1] == [keep]


def test_nothing_is_collected_while_somebody_writes(store: Store, tmp_path: Path) -> None:
    data = CHANCE.randbytes(2 * CHUNK)
    save(store, b"a", data, name="a")
    other = local_store(tmp_path)
    with other.begin(SMALL) as writer:
        chunks = writer.put(data)  # found in the pack of what is forgotten now
        store.forget("a")
        assert "is being written" in store.gc(wait_seconds=0).reason
        commit(writer, b"b", [data], "b")
    assert store.gc().reason == ""
    assert load(store, "b")[1] == [data]
    with store.open("b") as reader:
        assert reader.read(chunks) == data


def manifest(number: int, *, automatic: bool = False, day: int = 0, notebook: str = "") -> Manifest:
    return Manifest(
        id=f"{number:022x}",
        name="" if automatic else f"n{number}",
        created_ms=day * DAY * 1000,
        automatic=automatic,
        notebook=notebook,
        environment=ENVIRONMENT,
        details=[],
        details_bytes=0,
    )


def test_retention_counts_automatic_ones_of_each_notebook_and_leaves_named_ones() -> None:
    made = [manifest(n, automatic=True, notebook="ab"[n % 2]) for n in range(8)] + [manifest(9)]
    gone = outlived(made, Retention(count=2), 0)
    assert [int(each.id, 16) for each in gone] == [0, 1, 2, 3]
    assert [int(each.id, 16) for each in outlived(made, Retention(named_count=0), 0)] == []


def test_retention_by_age_keeps_the_newest_one_whatever_its_age() -> None:
    made = [manifest(1, automatic=True, day=1), manifest(2, day=1), manifest(3, automatic=True, day=2)]
    rule = Retention(age_seconds=DAY, named_age_seconds=30 * DAY)
    assert [int(each.id, 16) for each in outlived(made, rule, 10 * DAY)] == [1]
    assert [int(each.id, 16) for each in outlived(made, rule, 100 * DAY)] == [1, 2]


def test_retention_by_bytes_counts_what_is_shared_once() -> None:
    made = [manifest(1), *(manifest(n, automatic=True) for n in (2, 3, 4))]
    held = {1: "ab", 2: "bc", 3: "cd", 4: "d"}

    def holds(each: Manifest) -> list[tuple[object, int]]:
        return [(chunk, 10) for chunk in held[int(each.id, 16)]]

    assert too_large(made, 40, holds) == []
    assert [int(each.id, 16) for each in too_large(made, 30, holds)] == [2, 3]
    assert [int(each.id, 16) for each in too_large(made, 0, holds)] == [2, 3]


def test_a_store_keeps_to_a_rule(store: Store) -> None:
    for _ in range(4):
        save(store, b"auto", CHANCE.randbytes(CHUNK), automatic=True)
    save(store, b"named", CHANCE.randbytes(CHUNK), name="mine")
    save(store, b"auto", CHANCE.randbytes(CHUNK), automatic=True)
    assert len(store.retain(Retention(count=4))) == 1
    assert len(store.retain(Retention(bytes=3 * CHUNK + 10_000))) == 2
    assert len(store.list()) == 3
    assert store.find("mine")
    store.gc()
    assert store.usage().used_bytes < 4 * CHUNK


def test_usage_says_what_is_taken_and_what_is_held(store: Store) -> None:
    data = CHANCE.randbytes(CHUNK)
    save(store, b"a", data, name="a")
    save(store, b"a", data, name="b")
    usage = store.usage()
    assert (usage.snapshots, usage.packs) == (2, 1)
    assert usage.held_bytes == 2 * (CHUNK + 1)
    assert CHUNK < usage.used_bytes < CHUNK + 60_000


def test_a_thousand_snapshots_are_listed_from_one_file(tmp_path: Path) -> None:
    made = synthesize(tmp_path, 300)
    assert local_store(tmp_path).list() == made[::-1]
    (tmp_path / "snapshots" / f"{made[5].id}.snapshot").unlink()
    cold = local_store(tmp_path)
    assert len(cold.list()) == 299
    assert cold.damaged() == {}
    assert cold.find("299").name == "299"


@pytest.mark.parametrize("kind", ["directory", "no holes", "memory"])
def test_any_order_of_saving_forgetting_and_collecting_keeps_the_rest(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    made = {"directory": LocalFiles, "no holes": NoHoles}.get(kind)
    store = Store(made(tmp_path), owner="ann", keys=[KEY]) if made else memory_store()
    data = [bytearray(chance.randbytes(size)) for size in (2 * CHUNK, CHUNK + 5, 3000, 90_000)]
    kept: dict[str, list[bytes]] = {}
    for number in range(24):
        changed = chance.choice(data)
        changed[chance.randrange(len(changed))] ^= 1
        chosen = chance.sample(data, chance.randint(0, 4))
        name = f"state {number}"
        save(store, name.encode(), *chosen, name=name)
        kept[name] = [bytes(each) for each in chosen]
        if chance.random() < 0.6:
            gone = chance.choice(list(kept))
            store.forget(gone)
            del kept[gone]
        if chance.random() < 0.3:
            assert store.gc().reason == ""
        if made and chance.random() < 0.3:
            store = Store(made(tmp_path), owner="ann", keys=[KEY])
    assert {name: load(store, name)[1] for name in kept} == kept
    assert store.verify() == []
