"""Dask's configuration in our processes: the package's defaults and what stands here, nothing else.

Rule of this module: neither files in the user's home nor ``DASK_…`` variables reach the control plane, since
some of them run code in whoever reads them (``preload``) or open ports.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Marks a configuration that is ours already, so that one process may apply it twice.
_MARK = "jupyter_gpupool"

#: What differs from Dask's defaults: no work is scheduled here, so everything that serves it is off, and
#: nothing runs more often than once a second.
_OURS: dict[str, Any] = {
    _MARK: True,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.events-cleanup-delay": "10s",
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.preload": [],
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.http.routes": [],
    "distributed.worker.preload": [],
    "distributed.worker.profile.enabled": False,
    "distributed.admin.log-length": 100,
    "distributed.admin.low-level-log-length": 10,
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.system-monitor.log-length": 2,
    "distributed.admin.tick.cycle": "60s",
    "distributed.admin.tick.interval": "5s",
    "distributed.comm.default-scheme": "tls",
    "distributed.comm.require-encryption": True,
    # Dask gives the first attempt a fifth of it. When many agents come at once after a restart, handshakes
    # wait for each other, and one that is given up and begun again makes that longer for all. It is also how
    # long an agent may sleep between two attempts: well below the grace that a service gives after its start.
    "distributed.comm.timeouts.connect": "10s",
    # Dask asserts that this is at least 11 s.
    "distributed.comm.timeouts.tcp": "12s",
    "distributed.diagnostics.nvml": False,
}


@contextmanager
def control_config() -> Iterator[None]:
    """Put our Dask configuration in force, and the former back afterwards.

    It is process-wide, so only processes of ours that run no user code enter it.
    """
    import dask
    import distributed  # noqa: F401 - registers its defaults

    if dask.config.get(_MARK, default=False):
        yield
        return
    before = copy.deepcopy(dask.config.config)
    dask.config.refresh(paths=[], env={})
    _settle_logging()
    try:
        with dask.config.set(_OURS):
            yield
    finally:
        dask.config.config.clear()
        dask.config.config.update(before)


def _settle_logging() -> None:
    """Undo what importing distributed did to others' loggers; let its own speak of trouble only."""
    for name in ("tornado", "tornado.application", "bokeh"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.handlers.clear()
        logger.propagate = True
    distributed_logger = logging.getLogger("distributed")
    distributed_logger.setLevel(logging.WARNING)
    distributed_logger.handlers.clear()
    distributed_logger.propagate = True
