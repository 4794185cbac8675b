"""Memory that is made for a save only, and that nobody but the save has."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool import state
from jupyter_gpupool.state.store.opening import open_store

MADE: list[weakref.ref[Any]] = []


class Summed:
    """Makes an array of itself whenever it is saved."""

    def __getstate__(self) -> dict[str, Any]:
        numpy = pytest.importorskip("numpy")
        made = numpy.arange(1_000_000)
        MADE.append(weakref.ref(made))
        return {"made": made}


def test_what_an_object_makes_of_itself_is_there_until_the_snapshot_is(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    MADE.clear()
    there: list[int] = []

    def look() -> bool:
        """Collect what nobody has, whenever the writer asks whether to go on: at the end, too."""
        gc.collect()
        there.append(sum(it() is not None for it in MADE))
        return False

    space = {"many": [Summed(), Summed(), Summed()]}
    store = open_store(str(tmp_path / "store"))
    snapshot = state.capture(space, store=store, cancel=look, sections=False)
    assert there[-1] == len(MADE) == 3
    gc.collect()
    assert all(it() is None for it in MADE)  # and no longer
    fresh: dict[str, Any] = {}
    state.restore(snapshot, fresh)
    assert all(it.made[-1] == 999_999 for it in fresh["many"])
