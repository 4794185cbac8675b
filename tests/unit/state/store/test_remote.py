"""Object stores: an S3 server in this process, and what is done where nothing can be locked."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.state.errors import Cancelled, StoreUnavailable
from jupyter_gpupool.state.store.files import Held, Listed
from jupyter_gpupool.state.store.local import LocalFiles
from jupyter_gpupool.state.store.opening import memory_store, open_store
from jupyter_gpupool.state.store.store import Store
from tests.support.snapshot_stores import CHUNK, KEY, SMALL, commit, load, save

CHANCE = random.Random(11)


class Lockless(LocalFiles):
    """A directory that is like an object store: nothing is locked, and no file has holes."""

    punches = False
    older_seconds = 0.0

    def lock(self, *, shared: bool, wait_seconds: float):  # type: ignore[no-untyped-def]
        from contextlib import nullcontext

        return nullcontext(Held.NEVER)

    def listing(self, folder: str) -> list[Listed]:
        return [
            entry._replace(changed_seconds=entry.changed_seconds - self.older_seconds)
            for entry in super().listing(folder)
        ]


def lockless(root: Path, *, grace_seconds: float = 3600.0) -> tuple[Store, Lockless]:
    files = Lockless(root)
    return Store(files, owner="ann", keys=[KEY], grace_seconds=grace_seconds), files


def packs(root: Path) -> int:
    return len(list(root.glob("packs/*.pack")))


def test_without_locks_a_pack_is_announced_before_it_goes(tmp_path: Path) -> None:
    store, files = lockless(tmp_path)
    save(store, b"a", CHANCE.randbytes(CHUNK), name="a")
    store.forget("a")
    store.gc()
    assert packs(tmp_path) == 1  # young
    old = next(tmp_path.glob("packs/*.pack"))
    for path in list(tmp_path.glob("packs/*")):
        path.rename(path.with_name(path.name.replace(old.stem, "0000000000010000000001")))
    store.gc()
    assert packs(tmp_path) == 1  # announced
    assert len(list(tmp_path.glob("condemned/*"))) == 1
    store.gc()
    assert packs(tmp_path) == 1
    files.older_seconds = 3601
    store.gc()
    assert packs(tmp_path) == 0
    assert not list(tmp_path.glob("condemned/*"))


def condemned(tmp_path: Path) -> tuple[Store, bytes]:
    """Make a store in which a pack was announced."""
    store, _ = lockless(tmp_path, grace_seconds=0.0)
    data = CHANCE.randbytes(CHUNK)
    save(store, b"a", data, name="a")
    store.forget("a")
    deadline = time.monotonic() + 10
    while not list(tmp_path.glob("condemned/*")):
        assert time.monotonic() < deadline
        store.gc()
    return store, data


def test_new_snapshots_do_not_lean_on_packs_that_are_announced(tmp_path: Path) -> None:
    store, data = condemned(tmp_path)
    assert save(store, b"b", data, name="b").new_bytes > CHUNK
    store.gc()
    store.gc()
    assert load(lockless(tmp_path)[0], "b")[1] == [data]
    assert packs(tmp_path) == 1


def test_a_save_that_took_long_looks_again_before_it_names_a_pack(tmp_path: Path) -> None:
    store, _ = lockless(tmp_path, grace_seconds=0.0)
    data = CHANCE.randbytes(CHUNK)
    save(store, b"a", data, name="a")
    other, _ = lockless(tmp_path, grace_seconds=0.0)
    with store.begin(SMALL) as writer, pytest.raises(Cancelled, match="Take it again"):  # noqa: PT012
        writer.put(data)
        other.forget("a")
        deadline = time.monotonic() + 10
        while not list(tmp_path.glob("condemned/*")):
            assert time.monotonic() < deadline
            other.gc()
        commit(writer, b"b", [data], "b")
    assert store.list() == []


def test_a_pack_that_is_needed_again_is_pardoned(tmp_path: Path) -> None:
    store, files = lockless(tmp_path)
    data = CHANCE.randbytes(CHUNK)
    made = save(store, b"a", data, name="a")
    files.put(f"condemned/{next(tmp_path.glob('packs/*.pack')).stem}", b"")
    files.older_seconds = 4000
    store.gc()
    assert not list(tmp_path.glob("condemned/*"))
    assert load(store, made.id)[1] == [data]


def test_a_store_in_memory_is_gone_when_it_is_closed() -> None:
    store, other = memory_store(), memory_store()
    save(store, b"a", name="a")
    save(other, b"b", name="b")
    assert [manifest.name for manifest in store.list()] == ["a"]
    store.close()
    assert store.list() == []
    assert load(other, "b")[0] == b"b"
    other.close()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """Run an S3 server in this process; yields the driver's options."""
    server_module = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setenv("JUPYTER_GPUPOOL_DATA_DIR", str(tmp_path / "data"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(os.environ, "AWS_DEFAULT_REGION", "us-east-1")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options: dict[str, object] = {"key": "key", "secret": "secret", "skip_instance_cache": True}
    options["endpoint_url"] = f"http://{host}:{port}"
    s3fs.S3FileSystem(**options).mkdir(f"bucket-{port}")
    options["bucket"] = f"bucket-{port}"
    try:
        yield options
    finally:
        server.stop()


@pytest.mark.slow
def test_snapshots_are_kept_in_s3(s3: dict[str, object]) -> None:
    url = f"s3://{s3.pop('bucket')}/team"
    store = open_store(url, owner="ann", options=s3)
    assert store.url == f"{url}/ann"
    assert store.list() == []
    large, text = CHANCE.randbytes(18 * 1024 * 1024 + 17), b"text " * 500_000
    first = save(store, b"one", large, text, name="größe / one")
    again = save(store, b"one", large, text, name="two")
    assert first.new_bytes > len(large)
    assert again.new_bytes == 0
    elsewhere = open_store(url, owner="ann", options=s3)
    assert load(elsewhere, "größe / one") == (b"one", [large, text])
    assert open_store(url, owner="bob", options=s3).list() == []
    assert elsewhere.verify() == []
    with elsewhere.open("two") as reader:
        assert reader.places(reader.details().roots[0].chunks) is None
    assert elsewhere.usage().packs == 1
    with store.begin() as writer:  # an upload that is given up leaves no object
        writer.put(CHANCE.randbytes(17 * 1024 * 1024), transient=True)
    assert elsewhere.usage().packs == 1
    for name in ("größe / one", "two"):
        store.forget(name)
    now = open_store(url, owner="ann", options=s3, grace_seconds=0)
    deadline = time.monotonic() + 30
    while now.usage().packs:  # S3 says when objects changed to the second
        assert time.monotonic() < deadline
        now.gc()
    assert now.usage().used_bytes == 0


@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_said_without_credentials(s3: dict[str, object]) -> None:
    s3.pop("bucket")
    with pytest.raises(StoreUnavailable, match=r"s3://nowhere/x/ann cannot be used") as caught:
        save(open_store("s3://nowhere/x", owner="ann", options=s3))
    assert "secret" not in str(caught.value)
