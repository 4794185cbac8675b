"""What-if on the pool that runs: a real service is asked for its devices, and nothing of it is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.names import API_PREFIX
from tests.support.pool_process import running_pool, world


@pytest.mark.slow
def test_the_devices_of_the_pool_that_runs_are_played_and_the_pool_is_as_it_was(tmp_path: Path) -> None:
    with running_pool(world(tmp_path), emulate="3xA100-80GB") as pool:
        pool.request(500)
        before = pool.get(f"{API_PREFIX}/leases").body
        command = [sys.executable, "-m", "jupyter_gpupool", "simulate", "--pool", "live"]
        done = subprocess.run(
            [*command, "--users", "12", "--days", "0.5", "--seed", "3", "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=pool.environment,
        )
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert "3 x NVIDIA A100" in told["pool"]
        assert told["outcomes"][0]["capacity_hours"] == pytest.approx(3 * 12)
        assert 0 < told["outcomes"][0]["held_hours"] <= 3 * 12
        assert [it["id"] for it in pool.get(f"{API_PREFIX}/leases").body] == [it["id"] for it in before]
