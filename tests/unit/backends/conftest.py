"""Machines made of plain files: a /proc and a /sys with just what a test is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Build = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def machine_of(tmp_path: Path) -> Build:
    """Return a function that writes files and returns what takes the place of "/"."""
    root = tmp_path / "machine"

    def build(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return build
