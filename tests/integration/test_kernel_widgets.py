"""A monitor for which the kernel reads: outside any cell, and unseen by those who look for idle kernels."""

from __future__ import annotations

import os
import time
from queue import Empty

import pytest

from jupyter_gpupool.protocol import names
from tests.support.notebook import notebook
from tests.support.pool_process import running_pool

pytestmark = pytest.mark.slow

_ASKED = "import jupyter_gpupool as gpupool\nlease = gpupool.request(0.25)\nmonitor = gpupool.monitor()"
#: What the page does where there is no server to read from.
_LOOK = "monitor.looking = True"
_ALIVE = "import threading; [t.name for t in threading.enumerate() if t.name == 'jupyter_gpupool monitor']"


def test_the_kernel_stays_idle_while_it_reads_for_a_monitor_and_so_does_the_lease(tmp_path):
    world = dict(os.environ) | {
        names.ENV_RUNTIME_DIR: str(tmp_path / "run"),
        names.ENV_DATA_DIR: str(tmp_path / "data"),
        names.ENV_LOCK_DIR: str(tmp_path / "lock"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    with running_pool(world, embedded=True) as pool, notebook(world) as book:
        book.ok(_ASKED)
        assert "monitor" not in book.ok(_ALIVE).result
        book.ok(_LOOK)
        kinds, updates, deadline = [], 0, time.monotonic() + 40
        idle_seconds = 0.0
        while (updates < 3 or idle_seconds < 2.0) and time.monotonic() < deadline:
            (lease,) = pool.get("/api/v1/leases").body
            idle_seconds = lease["idle_seconds"] or 0.0
            try:
                message = book.client.get_iopub_msg(timeout=5)
            except Empty:
                continue
            kinds.append(message["msg_type"])
            updates += message["msg_type"] == "comm_msg"
        assert updates >= 3
        assert "status" not in kinds  # neither busy nor idle: no cell and no request is behind it
        assert idle_seconds >= 2.0, "the lease is as idle as without a monitor"
        book.ok("monitor.close()")
        wait = "import time\nend = time.monotonic() + 10\n"
        wait += f"while ({_ALIVE.split(';')[1].strip()}) and time.monotonic() < end: time.sleep(0.01)"
        book.ok(f"import threading\n{wait}")
        assert "monitor" not in book.ok(_ALIVE).result
