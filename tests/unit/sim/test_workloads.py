"""Pools and workloads: what is read, and what is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.backends.emulated_models import MODELS
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.sim.compare import parse_policy, play
from jupyter_gpupool.sim.notebook_class import (
    CELLS,
    PAUSE_MINUTES,
    TAIL_MINUTES,
    NotebookClass,
    cell_minutes,
)
from jupyter_gpupool.sim.pools import CORES_PER_GPU, openb_pool, parse_pool
from jupyter_gpupool.sim.workload import DAY_MS, HOUR_MS, batch, faster, once, openb_workload


def test_a_pool_is_read_with_its_nodes_devices_cores_and_memory() -> None:
    pool = parse_pool("2*4xA100-80GB,1xT4-16GB@64/512GiB; H100-80GB")
    assert [len(node.devices) for node in pool.nodes] == [6, 6, 2]
    assert len(pool.devices(DeviceKind.CUDA)) == 11
    cpus = pool.devices(DeviceKind.CPU)
    assert [it.compute_units for it in cpus] == [64, 64, CORES_PER_GPU]
    assert cpus[0].memory_bytes == 512 * 2**30
    assert len({it.id for it in pool.devices()}) == 14
    a100, h100, t4 = (MODELS[it].name for it in ("A100-80GB", "H100-80GB", "T4-16GB"))
    assert pool.describe() == f"8 x {a100}, 1 x {h100}, 2 x {t4} on 3 nodes"


@pytest.mark.parametrize(
    "text", ["", ";", "0*T4-16GB", "99999*T4-16GB", "8xNOPE", "2*", "T4-16GB@x", "T4-16GB@8/lots", "@8"]
)
def test_what_is_no_pool_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_pool(text)


def test_a_class_is_the_same_for_a_seed_and_its_users_do_not_know_each_other() -> None:
    made = NotebookClass(users=8, days=0.5, seed=3).workload()
    assert made == NotebookClass(users=8, days=0.5, seed=3).workload()
    assert made.people[:4] == NotebookClass(users=4, days=0.5, seed=3).workload().people
    assert made.people != NotebookClass(users=8, days=0.5, seed=4).workload().people
    assert made.horizon_ms == DAY_MS // 2
    assert {it.owner for it in made.people} == {f"user-{number:04}" for number in range(8)}
    assert all(visit.after_ms >= 0 for person in made.people for visit in person.visits)
    assert all(runs > 0 <= pause for it in made.people for visit in it.visits for pause, runs in visit.cells)


def test_a_class_can_use_all_its_sessions_or_none() -> None:
    busy = NotebookClass(users=30, days=1, idle_sessions=0).workload()
    idle = NotebookClass(users=30, days=1, idle_sessions=1).workload()
    assert any(visit.cells for person in busy.people for visit in person.visits)
    assert not any(visit.cells for person in idle.people for visit in person.visits)


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": 0},
        {"users": -3},
        {"users": 5, "days": 0},
        {"users": 5, "days": -1},
        {"users": 5, "idle_sessions": 2},
    ],
)
def test_a_class_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValue, match=r"out of range|no part"):
        NotebookClass(**wrong)


def test_the_tables_are_read_at_what_was_published() -> None:
    assert [cell_minutes(part) for part in (0.25, 0.75, 0.9, 0.95)] == [2, 6, 20, 40]
    assert cell_minutes(0.99) == pytest.approx(220)
    assert cell_minutes(1) == pytest.approx(TAIL_MINUTES)
    assert [PAUSE_MINUTES.at(part) for part in (0, 0.1, 0.26, 0.5, 0.9, 1)] == [0, 0, 0, 1, 7, 10_080]
    assert CELLS.at(0.5) == 57
    parts = [at / 20_000 for at in range(20_000)]
    lengths = [cell_minutes(part) for part in parts]
    assert lengths == sorted(lengths)
    # published: mean 19.8 minutes, and 59 % of the busy time in the longest hundredth
    assert sum(lengths) / len(lengths) == pytest.approx(19.8, rel=0.05)
    assert sum(lengths[-200:]) / sum(lengths) == pytest.approx(0.55, abs=0.06)


def test_a_load_brings_everything_closer_together_and_changes_nothing_else() -> None:
    people = [once("ann", at * HOUR_MS, Want(compute_milli=250), HOUR_MS) for at in (0, 2, 4)]
    twice = faster(batch("three", people), 2)
    assert [it.visits[0].after_ms for it in twice.people] == [0, HOUR_MS, 2 * HOUR_MS]
    assert {it.visits[0].cells for it in twice.people} == {((0, HOUR_MS),)}
    assert twice.horizon_ms == 2 * HOUR_MS
    for load in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidValue):
            faster(twice, load)


COLUMNS = ("num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time")
PODS = f"""name,cpu_milli,memory_mib,{",".join(COLUMNS)},scheduled_time
p0,12000,1,1,1000,,LS,Running,100,400,110
p1,6000,1,1,460,,BE,Running,160,220,160
p2,6000,1,0,0,,LS,Running,170,220,170
p3,6000,1,4,1000,A|B,LS,Running,180,,180
p4,6000,1,2,1000,T4|A|B,LS,Running,190,250,190
"""


def test_an_openb_list_is_played_by_its_times(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    workload = openb_workload(path)
    visits = [it.visits[0] for it in workload.people]
    assert [it.after_ms for it in visits] == [0, 60_000, 90_000]
    assert [it.cells for it in visits] == [((0, 290_000),), ((0, 60_000),), ((0, 60_000),)]
    assert [(it.want.compute_milli, it.want.count) for it in visits] == [(1000, 1), (460, 1), (1000, 2)]
    assert [it.owner for it in workload.people] == ["ls", "be", "ls"]
    assert workload.notes[0].startswith("2 requests")
    assert workload.sizes() == {1000: 3, 460: 1}
    first = visits[0].want
    assert (first.host_cpu_milli, first.host_memory_bytes, first.model) == (12000, 2**20, "")


def test_openb_requests_wait_for_cores_and_for_their_models(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,16000,262144,2,T4\nn1,96000,262144,1,G2\n"
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(nodes)
    head = PODS.splitlines()[0]
    rows = (
        "first,12000,1,1,500,P100|T4,LS,Running,0,600,0",
        "cores,12000,1,1,500,P100|T4,LS,Running,60,120,60",
        "other,12000,1,1,500,G2,LS,Running,60,120,60",
        "never,12000,1,1,500,P100,LS,Running,60,120,60",
    )
    (tmp_path / "pods.csv").write_text("\n".join((head, *rows)) + "\n")
    workload = openb_workload(tmp_path / "pods.csv")
    outcome = play(openb_pool(tmp_path), workload, parse_policy("order=fifo"))
    # on a GPU that is half free, the second waits for the cores of the first
    assert outcome.requests.longest_seconds == 540
    assert (outcome.counts.granted, outcome.counts.refused) == (3, 1)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", PODS.replace("460", "many"), PODS.splitlines()[0] + "\n"])
def test_what_is_no_openb_list_with_times_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=r"pods\.csv"):
        openb_workload(path)
    with pytest.raises(InvalidValue, match="gone"):
        openb_workload(tmp_path / "gone.csv")


def test_the_nodes_of_openb_are_a_pool(tmp_path: Path) -> None:
    rows = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,262144,8,G2\n"
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(rows)
    pool = openb_pool(tmp_path)
    assert pool.describe() == "8 x G2, 2 x P100 on 2 nodes"
    assert [it.compute_units for it in pool.devices(DeviceKind.CPU)] == [64, 96]
