"""Saving and reading snapshots: what is there is not written again, and what is read is what was saved."""

from __future__ import annotations

import pickle
import random
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.state.errors import Cancelled, CaptureFailed, StoreFull
from jupyter_gpupool.state.model import Segment
from jupyter_gpupool.state.store.opening import memory_store, open_store
from jupyter_gpupool.state.store.store import Store
from jupyter_gpupool.state.store.writing import WriteOptions
from tests.support.snapshot_stores import CHUNK, SMALL, commit, load, local_store, save

CHANCE = random.Random(5)


def noise(nbytes: int) -> bytearray:
    return bytearray(CHANCE.randbytes(nbytes))


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return local_store(tmp_path / "store") if request.param == "directory" else memory_store()


def test_what_is_read_is_what_was_saved(store: Store) -> None:
    large, small, text = noise(2 * CHUNK + 12345), noise(300), b"compresses well " * 100_000
    manifest = save(store, b"objects", large, small, b"", text, name="all of it")
    assert load(store, "all of it") == (b"objects", [bytes(large), bytes(small), b"", text])
    assert store.find("all of it") == manifest
    assert manifest.total_bytes == len(large) + len(small) + len(text) + 7


def test_another_process_reads_it(tmp_path: Path) -> None:
    save(local_store(tmp_path), b"objects", b"buffer", name="one")
    assert load(local_store(tmp_path), "one") == (b"objects", [b"buffer"])


def test_an_unchanged_save_writes_only_its_manifest(tmp_path: Path) -> None:
    data = noise(3 * CHUNK)
    for store in (local_store(tmp_path), local_store(tmp_path)):  # the second one has hashed nothing yet
        save(store, b"objects", data)
        before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
        assert save(store, b"objects", data).new_bytes == 0
        new = [path for path in tmp_path.rglob("*") if path.is_file() and path not in before]
        assert [path.suffix for path in new] == [".snapshot"]
        assert new[0].stat().st_size < 2_000


def test_one_changed_byte_writes_one_chunk(store: Store) -> None:
    data = noise(4 * CHUNK)
    save(store, b"objects", data)
    data[CHUNK + 5] ^= 1
    assert CHUNK <= save(store, b"objects", data, name="changed").new_bytes < CHUNK + 65_536
    assert load(store, "changed")[1] == [bytes(data)]


def test_equal_buffers_of_one_snapshot_are_written_once(store: Store) -> None:
    data = noise(CHUNK)
    assert save(store, b"objects", data, bytes(data), data).new_bytes < CHUNK + 65_536


def test_what_compresses_is_compressed_and_what_does_not_is_left_as_it_is(store: Store) -> None:
    assert save(store, b"o", bytes(2 * CHUNK)).new_bytes < 65_536
    assert save(store, b"o", noise(2 * CHUNK)).new_bytes >= 2 * CHUNK


def test_two_thousand_small_things_are_one_file(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    with store.begin(SMALL) as writer:
        parts = [writer.put(b"variable %d" % n) for n in range(2000)]
        manifest = commit(writer, b"o", [])
    assert len(list((tmp_path / "packs").glob("*.pack"))) == 1
    with store.open(manifest.id) as reader:
        assert (
            reader.read([chunk for part in parts[:3] for chunk in part]) == b"variable 0variable 1variable 2"
        )


def test_the_stream_is_a_file_that_a_pickle_is_loaded_from(store: Store) -> None:
    value = {"small": list(range(1000)), "large": bytes(noise(2 * CHUNK))}
    data = pickle.dumps(value, 5)
    with store.begin(SMALL) as writer:
        cuts = [0, 1000, CHUNK + 7, len(data)]
        segments = [Segment(nbytes=b - a, chunks=writer.put(data[a:b])) for a, b in pairwise(cuts)]
        manifest = commit(writer, b"o", [])
    with store.open(manifest.id) as reader, reader.stream(segments) as stream:
        assert pickle.load(stream) == value  # noqa: S301 - our own bytes
        assert stream.read() == b""


def test_memory_that_is_used_again_is_written_before_put_returns(store: Store) -> None:
    staging, first = bytearray(CHUNK), bytes(noise(CHUNK))
    second = bytes(noise(CHUNK))
    with store.begin(SMALL) as writer:
        staging[:] = first
        chunks = writer.put(staging, transient=True)
        staging[:] = second
        chunks += writer.put(staging, transient=True)
        manifest = commit(writer, b"o", [])
    with store.open(manifest.id) as reader:
        assert reader.read(chunks) == first + second


def test_copies_let_the_owner_go_on_before_the_commit(store: Store) -> None:
    data = noise(3 * CHUNK)
    before = bytes(data)
    with store.begin(WriteOptions(chunk_bytes=CHUNK, copies=True, queue_bytes=CHUNK)) as writer:
        chunks = writer.put(data)
        data[:] = bytes(len(data))
        made = []
        thread = threading.Thread(target=lambda: made.append(commit(writer, b"o", [])))
        thread.start()
        thread.join(20)
    with store.open(made[0].id) as reader:
        assert reader.read(chunks) == before


def test_memory_that_changed_meanwhile_is_noticed(store: Store) -> None:
    data, small = noise(2 * CHUNK), noise(100)
    with store.begin(WriteOptions(chunk_bytes=CHUNK, watch=True)) as writer:
        writer.put(data)
        writer.put(small)
        assert writer.unchanged()
        data[-1] ^= 1
        assert not writer.unchanged()
        data[-1] ^= 1
        small[0] ^= 1
        assert not writer.unchanged()
    assert store.list() == []


def test_a_chunk_that_changes_while_it_is_written_is_never_saved(store: Store) -> None:
    data = noise(8 * CHUNK)
    stop = threading.Event()

    def scribble() -> None:
        while not stop.is_set():
            data[7 * CHUNK + 1] = (data[7 * CHUNK + 1] + 1) % 256

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        with pytest.raises(CaptureFailed, match="a thread is at work on it"):  # noqa: PT012
            for _ in range(200):  # a save in which the thread had no turn is a good one
                save(store, b"o", data)
    finally:
        stop.set()
        thread.join(20)
    assert store.verify() == []


def test_stopping_a_save_leaves_nothing(tmp_path: Path) -> None:
    store, asked = local_store(tmp_path), iter([False, False, True])
    with pytest.raises(Cancelled, match="nothing was saved"):
        save(
            store, b"o", noise(9 * CHUNK), options=WriteOptions(chunk_bytes=CHUNK, cancel=lambda: next(asked))
        )
    assert store.list() == []
    assert not list(tmp_path.glob("packs/*"))


def test_progress_counts_every_byte(store: Store) -> None:
    told: list[int] = []
    manifest = save(
        store, b"o", noise(3 * CHUNK), options=WriteOptions(chunk_bytes=CHUNK, progress=told.append)
    )
    assert told == sorted(told)
    assert told[-1] == manifest.total_bytes + manifest.details_bytes
    read: list[int] = []
    with store.open(manifest.id) as reader:
        root = reader.details().roots[0]
        target = bytearray(root.nbytes)
        reader.read_into(root.chunks, target, progress=read.append)
        assert sum(read) == root.nbytes
        with pytest.raises(Cancelled):
            reader.read_into(root.chunks, target, cancel=lambda: True)


def test_raw_chunks_of_a_buffer_follow_each_other_on_pages_that_can_be_mapped(tmp_path: Path) -> None:
    store, data = local_store(tmp_path), noise(3 * CHUNK + 4096 + 5)
    save(store, b"objects", data, bytes(CHUNK), name="a")
    data[CHUNK] ^= 1
    save(store, b"objects", data, name="b")
    for name, files, stretches in (("a", 1, 1), ("b", 2, 3)):
        with store.open(name) as reader:
            root = reader.details().roots[0]
            places = reader.places(root.chunks)
            assert places is not None
            assert len(places) == stretches
            assert len({place.path for place in places}) == files
            assert all(place.offset % 4096 == 0 for place in places)
            mapped = b"".join(
                Path(place.path).read_bytes()[place.offset : place.offset + place.nbytes] for place in places
            )
            assert mapped == reader.read(root.chunks)
    with store.open("a") as reader:
        details = reader.details()
        assert reader.places(details.roots[1].chunks) is None  # compressed
        assert reader.places(details.stream[0].chunks) is None  # small


def test_a_store_in_memory_has_nothing_to_map() -> None:
    store = memory_store()
    save(store, b"o", noise(CHUNK), name="a")
    with store.open("a") as reader:
        assert reader.places(reader.details().roots[0].chunks) is None


def test_only_the_owner_may_enter(tmp_path: Path) -> None:
    store = local_store(tmp_path / "deep" / "store")
    save(store, b"o", noise(100))
    for path in (tmp_path / "deep").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_quota_refuses_what_would_not_fit(tmp_path: Path) -> None:
    store = local_store(tmp_path, quota_bytes=CHUNK)
    save(store, b"o", noise(CHUNK // 2), name="fits")
    with pytest.raises(StoreFull, match="of the 393,216 that are allowed"):
        save(store, b"o", noise(CHUNK))
    assert [manifest.name for manifest in store.list()] == ["fits"]
    assert store.gc().parts == 0
    assert store.usage().quota_bytes == CHUNK


def test_addresses_mean_directories_and_owners_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_GPUPOOL_DATA_DIR", str(tmp_path / "data"))
    assert Path(open_store().url).parent.name == "snapshots"
    assert (tmp_path / "data") in Path(open_store().url).parents
    ann = open_store(str(tmp_path / "shared"), owner="ann")
    save(ann, b"o", name="hers")
    assert [m.owner for m in open_store(f"file://{tmp_path}/shared", owner="ann").list()] == ["ann"]
    assert open_store(str(tmp_path / "shared"), owner="../ann").list() == []
    assert Path(open_store(str(tmp_path / "shared"), owner="../ann").url).parent == tmp_path / "shared"
    with pytest.raises(InvalidValue, match="is no address"):
        open_store("nonsense://x")


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    from jupyter_gpupool.state.errors import StoreUnavailable

    (tmp_path / "store").write_text("a file where the directory should be")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        save(local_store(tmp_path / "store"))


def test_a_save_at_the_end_of_the_interpreter_needs_no_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    store, data = local_store(tmp_path), noise(3 * CHUNK)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    save(store, b"o", data, name="last words")
    assert load(store, "last words")[1] == [bytes(data)]


def test_shaped_and_empty_buffers_are_taken_as_they_lie_in_memory(store: Store) -> None:
    numpy = pytest.importorskip("numpy")
    square, nothing = numpy.arange(10_000.0).reshape(100, 100), numpy.zeros((0, 3))
    with store.begin(SMALL) as writer:
        chunks, none = writer.put(square), writer.put(nothing)
        manifest = commit(writer, b"o", [])
    assert none == []
    again = numpy.zeros_like(square)
    with store.open(manifest.id) as reader:
        reader.read_into(chunks, again)
        reader.read_into([], nothing)
    assert (again == square).all()
