"""Fixtures that every test may use: a world of its own on disk, and what is promised to exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jupyter_gpupool.protocol import names

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

pytest_plugins = ["pytest_jupyter.jupyter_server"]


@pytest.fixture(autouse=True)
def pool_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give each test its own runtime, data and lock directories, and no pool of the person's own.

    Returns the environment for child processes.
    """
    for name in (names.ENV_URL, names.ENV_TOKEN, names.ENV_REATTACH):
        monkeypatch.delenv(name, raising=False)
    world = {
        names.ENV_RUNTIME_DIR: str(tmp_path / "run"),
        names.ENV_DATA_DIR: str(tmp_path / "data"),
        names.ENV_LOCK_DIR: str(tmp_path / "lock"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)
