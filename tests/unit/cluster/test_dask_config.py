"""Dask's configuration in our processes."""

from __future__ import annotations

import logging

import dask
import distributed  # noqa: F401 - registers its defaults, which `dask.config.set` would drop otherwise
import pytest

from jupyter_gpupool.cluster.dask_config import control_config


def test_nothing_of_the_users_configuration_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", "['evil']")
    with dask.config.set({"distributed.worker.preload": ["evil"], "temporary-directory": "/evil"}):
        before = dict(dask.config.config)
        with control_config():
            assert dask.config.get("distributed.worker.preload") == []
            assert dask.config.get("distributed.scheduler.preload") == []
            assert dask.config.get("temporary-directory") is None
        assert dask.config.config == before


def test_it_may_be_applied_twice() -> None:
    with control_config(), control_config():
        assert dask.config.get("distributed.scheduler.work-stealing") is False


def test_the_loggers_of_others_are_left_to_others() -> None:
    with control_config():
        assert logging.getLogger("tornado").level == logging.NOTSET
        assert logging.getLogger("tornado.application").propagate
