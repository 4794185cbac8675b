"""A module may be imported while those that there are are looked at: by a finalizer, or another thread."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from jupyter_gpupool.state.graph.parts import origins


@pytest.fixture
def imports_at_each_collection() -> Iterator[None]:
    """Let each garbage collection import a module, as a finalizer may, and let there be many of them."""
    names = (f"made_meanwhile_{number}" for number in itertools.count())
    made = []

    def import_one(phase: str, _: object) -> None:
        if phase == "start":
            made.append(next(names))
            sys.modules[made[-1]] = ModuleType(made[-1])

    threshold = gc.get_threshold()
    gc.callbacks.append(import_one)
    gc.set_threshold(1)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(import_one)
    for name in made:
        del sys.modules[name]
    assert made


@pytest.mark.usefixtures("imports_at_each_collection")
def test_where_modules_come_from_is_found_while_others_are_imported() -> None:
    for _ in range(3):
        assert "made_meanwhile_0" not in origins()
