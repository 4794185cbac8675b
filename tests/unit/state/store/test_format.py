"""The format: what version 1 wrote is read, by this package and by what its specification says alone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import blake3
import msgspec
import pytest
import zstandard

from jupyter_gpupool.state import model
from jupyter_gpupool.state.model import FORMAT, FindingKind, RootKind
from tests.support.snapshot_stores import KEY, local_store

FIXTURE = Path(__file__).parent / "format_1"
NOISE = random.Random(1).randbytes(3000)
DIGITS = b"0123456789" * 10_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Copy the store that version 1 wrote."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "store"))


def test_what_version_1_wrote_is_read(root: Path) -> None:
    store = local_store(root)
    assert store.verify() == []
    newest, first = store.list()
    assert (first.name, first.note, first.kernel, first.created_ms) == (
        "first / größe",
        "a note",
        "k1",
        1_790_000_000_000,
    )
    assert first.findings[0].kind is FindingKind.NOT_SAVED
    assert first.environment.packages == {"numpy": "2.4.6"}
    assert newest.automatic
    with store.open("first / größe") as reader:
        details = reader.details()
        assert [variable.name for variable in details.variables] == ["x", "größe"]
        assert [root.kind for root in details.roots] == [RootKind.NUMPY, RootKind.TORCH, RootKind.NUMPY]
        assert details.offsets == [(0, 0), (1, 16)]
        assert details.sections == ["rng"]
        assert [reader.read(root.chunks) for root in details.roots] == [NOISE, DIGITS, b""]
        with reader.stream(details.stream) as stream:
            assert stream.read() == b"definitionsvariables"
    with store.open(newest.id) as reader:
        assert reader.read(reader.details().roots[0].chunks) == NOISE
    assert store.gc().freed_bytes == 0


def chunks_by_specification(root: Path) -> dict[bytes, bytes]:
    """Read all chunks as docs/snapshots-format.md says, with nothing of this package."""
    chunks = {}
    for path in root.glob("packs/*.index"):
        index = path.read_bytes()
        pack = (path.parent / f"{path.stem.rpartition('-')[0]}.pack").read_bytes()
        assert pack[:16] == b"gpupool pack 1\n\0"
        assert index[:16] == b"gpupool index 1\n"
        assert blake3.blake3(index[48:]).digest() == index[16:48]
        body = msgspec.msgpack.decode(index[48:])
        assert body["pack_bytes"] == len(pack)
        for chunk, offset, stored, nbytes, codec in body["entries"]:
            data = pack[offset : offset + stored]
            chunks[chunk] = zstandard.decompress(data) if codec else data
            assert len(chunks[chunk]) == nbytes
            assert blake3.blake3(chunks[chunk]).digest() == chunk
    return chunks


def test_the_specification_is_enough_to_read_it(root: Path) -> None:
    chunks = chunks_by_specification(root)
    path = min(root.glob("snapshots/*.snapshot"))
    data = path.read_bytes()
    assert data[:16] == b"gpupool snap 1\n\0"
    assert blake3.blake3(data[48:]).digest() == data[16:48]
    assert blake3.blake3(data[:16] + data[80:], key=KEY).digest() == data[48:80]
    manifest = msgspec.msgpack.decode(data[80:])
    assert (manifest["format"], manifest["id"]) == (FORMAT, path.stem)
    inside = b"".join(chunks[chunk] for chunk in manifest["details"])
    assert len(inside) == manifest["details_bytes"]
    details = msgspec.msgpack.decode(inside)
    assert (
        b"".join(chunks[c] for part in details["stream"] for c in part["chunks"]) == b"definitionsvariables"
    )
    assert b"".join(chunks[c] for part in details["roots"] for c in part["chunks"]) == NOISE + DIGITS


def test_the_specification_names_every_field() -> None:
    page = (Path(__file__).parents[4] / "docs" / "snapshots-format.md").read_text()
    for kind in (model.Manifest, model.Details, model.Root, model.Segment, model.Variable, model.Finding):
        for field in msgspec.structs.fields(kind):
            assert f"`{field.name}`" in page, f"{kind.__name__}.{field.name}"


def test_the_fixture_is_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURE.rglob("*") if path.is_file()) < 50_000
