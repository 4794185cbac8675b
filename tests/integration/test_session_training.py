"""A training whose number of workers follows its progress ends where the one with a fixed number does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pool_process import running_pool

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "digits_by_progress.py"


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.timeout(400)
def test_the_number_of_workers_does_not_change_what_is_learnt(pool_environment: dict[str, str]) -> None:
    command = [sys.executable, str(EXAMPLE), "5", "1"]
    with running_pool(pool_environment) as pool:
        done = subprocess.run(
            command, env=pool_environment, capture_output=True, text=True, timeout=360, check=False
        )
        assert done.returncode == 0, done.stderr
        assert pool.get("/api/v1/leases").body == []
    found = re.fullmatch(r"by progress ([\d.]+), with 1 all the time ([\d.]+)\n", done.stdout)
    assert found is not None, done.stdout
    elastic, fixed = map(float, found.groups())
    assert elastic == pytest.approx(fixed, abs=0.002)
    assert fixed < 1.5
