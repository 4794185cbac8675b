"""What was mapped without being read is compared with its hashes afterwards, and what is damaged is named."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_gpupool import state
from jupyter_gpupool.protocol import names
from jupyter_gpupool.state.memory.lazy import Mapped, Stretch
from jupyter_gpupool.state.store.rechecking import Rechecker
from jupyter_gpupool.state.store.store import Store

np = pytest.importorskip("numpy")

#: Elements of an array of three chunks.
LENGTH = 1_300_000
SEEDS = {"first": 1, "second": 2}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(names.ENV_DATA_DIR, str(tmp_path / "data"))
    found = state.open_store(str(tmp_path / "store"))
    values = {name: np.random.default_rng(seed).random(LENGTH) for name, seed in SEEDS.items()}
    state.capture(values, store=found, name="best", sections=False)
    return found


def restored(store: Store, said: list[str]) -> dict[str, Any]:
    """Restore lazily, and wait until everything was compared."""
    namespace: dict[str, Any] = {}
    snapshot = state.Snapshot(store, store.find("best"))
    report = state.restore(snapshot, namespace, lazy=True, damaged=said.append)
    assert not report.findings
    for thread in threading.enumerate():
        if thread.name == "jupyter_gpupool checking":
            thread.join(60)
    return namespace


def place_of(store: Store, variable: str) -> Any:
    """Say where the array of a variable lies."""
    begins = np.random.default_rng(SEEDS[variable]).random(1).tobytes()
    with store.open("best") as reader:
        roots = [root.chunks for root in reader.details().roots]
        return next(reader.places(it)[0] for it in roots if reader.read(it[:1]).startswith(begins))


@pytest.mark.parametrize(("variable", "at"), [("first", 0), ("first", 5_000_001), ("second", LENGTH * 8 - 1)])
def test_a_flipped_byte_is_said_with_its_variable_its_snapshot_and_its_file(
    store: Store, variable: str, at: int
) -> None:
    place = place_of(store, variable)
    with Path(place.path).open("r+b") as file:
        file.seek(place.offset + at)
        byte = file.read(1)[0]
        file.seek(place.offset + at)
        file.write(bytes([byte ^ 16]))
    said: list[str] = []
    namespace = restored(store, said)
    assert set(namespace) >= {"first", "second"}
    (sentence,) = said
    assert f"The variable {variable}, which" in sentence
    assert "snapshot best" in sentence
    assert place.path in sentence
    assert "restore an older snapshot" in sentence


def test_what_is_as_it_was_saved_is_not_spoken_of_whatever_its_owner_does_with_it(store: Store) -> None:
    said: list[str] = []
    namespace = restored(store, said)
    namespace["first"][:] = 0
    restored(store, said)
    assert said == []


def test_what_nobody_has_any_more_is_left_out_and_no_file_is_held_for_it(store: Store) -> None:
    with store.open("best") as reader:
        mapper = Mapped(reader.places)
        memory = mapper.map(reader.details().roots[0])
    assert memory is not None
    (stretch,) = mapper.stretches
    assert stretch.files() is not None
    del memory
    assert stretch.files() is None
    said: list[str] = []
    wrong = [place._replace(chunks=((bytes(32), 10),)) for place in stretch.places]
    Rechecker([Stretch("first", wrong, stretch.memory)], "best", said.append).run()
    assert said == []


def test_it_stops_when_it_is_told_to(store: Store) -> None:
    with store.open("best") as reader:
        mapper = Mapped(reader.places)
        memory = mapper.map(reader.details().roots[0])
        wrong = [place._replace(chunks=((bytes(32), 10),)) for place in mapper.stretches[0].places]
    assert memory is not None
    said: list[str] = []
    held = SimpleNamespace(variable="x", places=wrong, files=mapper.stretches[0].files)
    checker = Rechecker([held], "best", said.append)
    checker.stop()
    checker.run()
    assert said == []
    assert isinstance(mapper.stretches[0].memory, weakref.ref)
