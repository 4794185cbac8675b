"""The openb method on a pool that is small enough to count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.policies.scores import SCORES
from jupyter_gpupool.sim.openb import Curve, arrivals, node_order, read_trace, replay

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"node-{number},64000,262144,4,{'T4' if number % 2 else 'G2'}\n" for number in range(6)
)
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
PODS = HEAD + "".join(
    f"pod-{number:03},{4000 + number % 3 * 4000},16384,{(number % 5 > 0) + (number % 11 == 0)},"
    f"{(460, 810, 1000, 320)[number % 4]},{'T4|G2' if number % 7 == 0 else ''}\n"
    for number in range(40)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_small.csv").write_text(PODS)
    return tmp_path


def test_a_trace_is_read_by_name_with_its_models_and_sizes(folder: Path) -> None:
    trace = read_trace(folder, "small")
    assert trace.capacity_milli == 24_000
    assert trace.devices_by_model() == {"G2": 12, "T4": 12}
    assert len(trace.asks) == 40
    assert trace.asks[0].models == ("G2", "T4")
    without = [ask for ask in trace.asks if not ask.devices]
    assert without
    assert {ask.milli for ask in without} == {0}


@pytest.mark.parametrize(
    ("name", "text"), [("gone", None), ("empty", ""), ("other", "a,b\n1,2\n"), ("binary", "\x00\udcff")]
)
def test_what_is_not_a_trace_is_named(folder: Path, name: str, text: str | None) -> None:
    if text is not None:
        path = folder / f"openb_pod_list_{name}.csv"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InvalidValue, match=f"openb_pod_list_{name}.csv"):
        read_trace(folder, name)


def test_arrivals_are_the_same_for_a_seed_and_stop_at_the_limit(folder: Path) -> None:
    trace = read_trace(folder, "small")
    asks = arrivals(trace, 42)
    assert asks == arrivals(trace, 42)
    assert asks != arrivals(trace, 43)
    demand = sum(ask.demand_milli for ask in asks)
    assert 1.3 * trace.capacity_milli - 1000 < demand <= 1.3 * trace.capacity_milli + 1000
    assert sorted(node_order(trace, 42)) == sorted(trace.nodes)


@pytest.mark.parametrize("policy", sorted(SCORES))
def test_every_policy_fills_the_pool_and_never_more(folder: Path, policy: str) -> None:
    trace = read_trace(folder, "small")
    curve = replay(trace, SCORES[policy], 42, foresight=policy == "fgd")
    assert 70 < curve.at(130) <= 100
    assert all(allocated <= min(100, asked + 1) for asked, allocated in curve.allocated.items())
    assert curve.dropped > 0
    assert curve == replay(trace, SCORES[policy], 42, foresight=policy == "fgd")


def test_a_curve_is_read_at_the_nearest_percent() -> None:
    curve = Curve(allocated={98: 1.0, 101: 2.0, 110: 3.0}, dropped=0)
    assert [curve.at(percent) for percent in (90, 99, 100, 101, 104, 130)] == [1.0, 1.0, 2.0, 2.0, 2.0, 3.0]


def test_a_trace_can_be_played_in_the_order_of_creation(folder: Path) -> None:
    with pytest.raises(InvalidValue, match="creation_time"):
        read_trace(folder, "small", by_creation=True)
    rows = PODS.splitlines()
    timed = [f"{rows[0]},creation_time", *(f"{row},{100 - number}" for number, row in enumerate(rows[1:]))]
    (folder / "openb_pod_list_timed.csv").write_text("\n".join(timed) + "\n")
    trace = read_trace(folder, "timed", by_creation=True)
    assert trace.asks == tuple(reversed(read_trace(folder, "small").asks))
    assert tuple(arrivals(trace, 42, shuffled=False)[: len(trace.asks)]) == trace.asks


def test_the_benchmark_writes_one_record_for_each_run(folder: Path) -> None:
    script, report = Path(__file__).parents[3] / "benchmarks" / "placement_openb.py", folder / "report.json"
    options = ["--data", folder, "--pods", "small", "--seeds", "1,2", "--policies", "fgd,bid_price"]
    command = [str(word) for word in (sys.executable, script, *options, "--jobs", "1", "--json", report)]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    records = json.loads(report.read_text())
    assert [(it["pods"], it["policy"], it["seed"]) for it in records] == [
        ("small", policy, seed) for policy in ("fgd", "bid_price") for seed in (1, 2)
    ]
    assert all(50 < it["alloc_at_100"] <= it["alloc_at_130"] <= 100 for it in records)
    assert "bid_price" in done.stdout
