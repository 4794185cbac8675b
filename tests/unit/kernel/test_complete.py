"""What Tab offers after %gpupool."""

from __future__ import annotations

import pytest

from jupyter_gpupool.kernel.commands import COMMANDS
from jupyter_gpupool.kernel.complete import completions


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%gpupool re", ["request", "resize", "release", "restore", "rerun"]),
        ("gpupool re", ["request", "resize", "release", "restore", "rerun"]),
        ("x = %gpupool re", ["request", "resize", "release", "restore", "rerun"]),
        ("%gpupool ", [*COMMANDS, "--help"]),
        ("%gpupool ch", ["checkpoint"]),
        ("%gpupool checkpoint --ex", ["--except"]),
        ("%gpupool autosave ev", ["every"]),
        ("%gpupool autosave every ", ["5m", "10m", "30m", "--help"]),
        ("%gpupool autosave every 10m before ", ["shutdown", "preemption", "--help"]),
        ("%gpupool autosave off ", ["--help"]),
        ("%gpupool snapshots in", ["inspect"]),
        ("%gpupool restore x --map ", ["cuda:0=cpu", "cuda=cpu"]),
        ("%gpupool request 0.2", ["0.25"]),
        ("%gpupool request 0.25 --k", ["--kind"]),
        ("%gpupool request 0.25 --kind c", ["cpu", "cuda"]),
        ("%gpupool request 0.25 --wait ", ["30s", "2m", "1h"]),
        ("%gpupool request 0.25 --wait 2m --no", []),
        ("%gpupool request --memory 2GiB 0", ["0.25", "0.5", "0.75"]),
        ("%gpupool request 0.5 x", ["x2", "x4", "x8"]),
        ("%gpupool request 2 x", []),
        ("%gpupool request 0.5 x4 x", []),
        ("%gpupool resize 0.5 x", []),
        ("%gpupool request 0.5 x4 --s", ["--spread"]),
        ("%gpupool request 0.5 --priority ", ["low", "normal", "high"]),
        ("%gpupool request 0.5 --at", ["--at-most"]),
        ("%gpupool request 0.5 --mov", ["--move"]),
        ("%gpupool request 0.5 --no-wait --mov", []),
        ("%%gpupool 0.5 --mov", []),
        ("%%gpupool 0.5 --no", ["--no-wait"]),
        ("%gpupool nonsense ", []),
        ("%gpupool", []),
        ("%gpupools re", []),
        ("print('%gpupool re", []),
    ],
)
def test_tab_offers_what_may_come_next(line, offered):
    assert completions(line) == offered


def test_device_names_are_not_worth_starting_a_pool(pool_environment):
    assert completions("%gpupool request 1 --device ") == []
