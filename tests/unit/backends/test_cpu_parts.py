"""The small parts of the CPU backend: numbers, sentences, records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.backends.affinity import choose_cores, format_cores, parse_cores
from jupyter_gpupool.backends.base import Attachment, BackendError, HolderTooLarge, ProcessMark
from jupyter_gpupool.backends.cpu_isolation import cores_milli, describe, whole_cores
from jupyter_gpupool.backends.cpu_refusals import check_share, refuse_larger
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rlimits import UNLIMITED, lower
from jupyter_gpupool.backends.treememory import MemoryMeter, TreeMemory
from jupyter_gpupool.backends.undo import ComputeRung, GroupRecord, MemoryRung, Undo, load_undo
from jupyter_gpupool.core.leases import Resource, Strength
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder
from jupyter_gpupool.protocol.names import ENV_LEASE
from tests.unit.backends.conftest import Build

MIB = 2**20


def share(milli: int = 250, mib: int = 100) -> ShareOrder:
    return ShareOrder(device_id="CPU-1", compute_milli=milli, memory_bytes=mib * MIB)


def compute_doc(undo: Undo, milli: int, units: int, uid: int = 1000, agent: int = 1000) -> IsolationDoc:
    docs = {doc.resource: doc for doc in describe(undo, share(milli), units, uid, agent)}
    return docs[Resource.COMPUTE]


def on_cores(*cores: int) -> Undo:
    return Undo(compute=ComputeRung.AFFINITY, memory=MemoryRung.RLIMIT, cores=list(cores))


@pytest.mark.parametrize(
    ("text", "cores"), [("0", {0}), ("0-3,7", {0, 1, 2, 3, 7}), ("", set()), ("5,1-2\n", {1, 2, 5})]
)
def test_lists_of_cores_are_read(text: str, cores: set[int]) -> None:
    assert parse_cores(text) == cores
    assert parse_cores(format_cores(cores)) == cores


def test_lists_of_cores_are_written_as_the_kernel_does() -> None:
    assert format_cores([7, 0, 1, 2, 3, 9, 10]) == "0-3,7,9-10"


def test_the_least_used_cores_are_chosen() -> None:
    assert choose_cores(2, {0, 1, 2, 3}, {0: 1.0, 1: 0.5, 3: 0.25}) == [2, 3]
    assert choose_cores(2, {0, 1, 2, 3}, {}) == [0, 1]
    assert choose_cores(9, {4, 5}, {}) == [4, 5]


@pytest.mark.parametrize(
    ("milli", "units", "wanted", "whole"),
    [
        (250, 2, 500, 1),
        (500, 2, 1000, 1),
        (501, 2, 1002, 2),
        (1, 1, 1, 1),
        (1000, 8, 8000, 8),
        (333, 3, 999, 1),
    ],
)
def test_shares_are_rounded_up_to_whole_cores(milli: int, units: int, wanted: int, whole: int) -> None:
    assert cores_milli(share(milli), units) == wanted
    assert whole_cores(share(milli), units) == whole


@pytest.mark.parametrize(
    ("undo", "milli", "units", "note"),
    [
        (
            on_cores(1),
            250,
            2,
            "0.25 of 2 cores = 0.50 of a core, rounded up to 1 core: shared with others (core 1).",
        ),
        (on_cores(0), 500, 2, "0.5 of 2 cores = 1 core (core 0)."),
        (
            on_cores(0, 1),
            600,
            2,
            "0.6 of 2 cores = 1.20 cores, rounded up to 2 cores: shared with others (core 0-1).",
        ),
        (on_cores(3), 1000, 2, "1 of 2 cores = 2 cores, but the process may only use 1 core (core 3)."),
        (
            on_cores(0),
            1,
            1,
            "0.001 of 1 core = 0.001 of a core, rounded up to 1 core: shared with others (core 0).",
        ),
    ],
)
def test_rounding_is_told_in_words(undo: Undo, milli: int, units: int, note: str) -> None:
    assert compute_doc(undo, milli, units).note == note


def test_a_group_is_hard_only_where_the_holder_can_neither_write_to_it_nor_be_the_agent(
    tmp_path: Path,
) -> None:
    group = tmp_path / "ours"
    group.mkdir(mode=0o755)
    for directory in (tmp_path, group):
        (directory / "cgroup.procs").write_text("")
        (directory / "cgroup.procs").chmod(0o644)
    undo = Undo(compute=ComputeRung.CGROUP, memory=MemoryRung.CGROUP)
    undo.groups = [GroupRecord(path=str(group), version=2, cpu=True, memory=True)]
    stranger = os.geteuid() + 4242
    for doc in describe(undo, share(), 2, stranger, os.geteuid()):
        assert (doc.strength, doc.note) == (Strength.HARD, "")
    for doc in describe(undo, share(), 2, os.geteuid(), os.geteuid()):
        assert doc.strength is Strength.SOFT
        assert "own user" in doc.note
    group.chmod(0o777)
    for doc in describe(undo, share(), 2, stranger, os.geteuid()):
        assert doc.strength is Strength.SOFT


def test_unlimited_is_the_higher_of_two_limits() -> None:
    assert lower(UNLIMITED, 5) == lower(5, UNLIMITED) == lower(7, 5) == 5
    assert lower(UNLIMITED, UNLIMITED) == UNLIMITED


def test_a_process_may_take_what_its_tree_has_left() -> None:
    memory = TreeMemory(used_bytes=70 * MIB, data_bytes={1: 50 * MIB, 2: 90 * MIB, 3: 400 * MIB})
    assert memory.allowance(1, 100 * MIB, bounded=True) == 80 * MIB
    assert memory.allowance(2, 100 * MIB, bounded=True) == 100 * MIB
    assert memory.allowance(3, 100 * MIB, bounded=False) == 430 * MIB
    assert memory.allowance(1, 60 * MIB, bounded=True) == 50 * MIB
    assert memory.allowance(4, 100 * MIB, bounded=True) is None
    assert TreeMemory(used_bytes=None, data_bytes={1: 1}).allowance(1, 100, bounded=True) is None


def test_a_tree_with_a_process_that_cannot_be_measured_has_no_sum(machine_of: Build) -> None:
    files = {
        "proc/11/status": "Uid:\t1\t1\t1\t1\nVmData:\t 100 kB\nRssAnon:\t 50 kB\nRssShmem:\t 1 kB\n",
        "proc/12/status": "Uid:\t1\t1\t1\t1\nVmData:\t 100 kB\n",
    }
    meter = MemoryMeter(ProcFS(machine_of(files) / "proc"))
    one, two = ProcessMark(pid=11, start_ticks=1), ProcessMark(pid=12, start_ticks=1)
    assert meter.measure([one], MIB).used_bytes == 51 * 1024
    assert meter.measure([one, two], MIB).used_bytes is None
    assert meter.measure([], MIB).used_bytes is None


class Meter:
    """Two processes of 500 KiB, of which each shares a half with the other."""

    def __init__(self, build: Build) -> None:
        self._build, self.now, self.tree = (
            build,
            100.0,
            [ProcessMark(pid=pid, start_ticks=1) for pid in (11, 12)],
        )
        for pid in (11, 12):
            self.set(pid, own=250)
        self.meter = MemoryMeter(ProcFS(build({}) / "proc"), lambda: self.now)

    def set(self, pid: int, *, own: int, resident: int = 500) -> None:
        status = f"Uid:\t1\t1\t1\t1\nVmData:\t 900 kB\nRssAnon:\t {resident} kB\nRssShmem:\t 0 kB\n"
        rollup = f"Rss:  {resident} kB\nPss_Anon:  {own} kB\nPss_Shmem:  0 kB\n"
        self._build({f"proc/{pid}/status": status, f"proc/{pid}/smaps_rollup": rollup})

    def used(self, share_kib: int = 10_000, *, exact: bool = False) -> int:
        memory = self.meter.measure(self.tree, share_kib * 1024, exact=exact)
        self.meter.refresh(memory, self.tree, share_kib * 1024)
        assert memory.used_bytes is not None
        return memory.used_bytes // 1024


def test_one_process_is_measured_at_a_look_and_the_rest_counts_in_full(machine_of: Build) -> None:
    meter = Meter(machine_of)
    assert [meter.used() for _ in range(4)] == [1000, 750, 500, 500]


def test_a_refusal_rests_on_an_exact_measure(machine_of: Build) -> None:
    assert Meter(machine_of).used(600, exact=True) == 500


def test_growth_counts_at_once_and_what_is_shared_after_a_while(machine_of: Build) -> None:
    meter = Meter(machine_of)
    assert [meter.used() for _ in range(3)] == [1000, 750, 500]
    meter.set(11, own=700, resident=900)
    assert meter.used() == 900
    meter.now += 31
    assert [meter.used() for _ in range(3)] == [900, 950, 950]


def test_near_the_share_it_is_measured_more_often(machine_of: Build) -> None:
    meter = Meter(machine_of)
    assert [meter.used() for _ in range(3)] == [1000, 750, 500]
    meter.set(11, own=300)
    meter.now += 3
    assert [meter.used(520) for _ in range(3)] == [500, 550, 550]
    assert meter.used() == 550


def test_refusals_name_both_numbers_and_the_next_step() -> None:
    holder = ProcessMark(pid=11, start_ticks=1)
    with pytest.raises(HolderTooLarge) as caught:
        refuse_larger(on_cores(0), TreeMemory(used_bytes=1, data_bytes={11: 150 * MIB + 1}), share(), holder)
    assert str(caught.value) == (
        "Process 11 already has 150.0 MiB of data memory, more than the share of 100.0 MiB. "
        "Restart the kernel, or request at least 151MiB of memory."
    )
    with pytest.raises(HolderTooLarge, match="Process 12, a child of 11, already has"):
        refuse_larger(on_cores(0), TreeMemory(used_bytes=1, data_bytes={12: 150 * MIB}), share(), holder)
    with pytest.raises(HolderTooLarge, match=r"Process 11 already uses 120\.0 MiB"):
        refuse_larger(on_cores(0), TreeMemory(used_bytes=120 * MIB, data_bytes={11: MIB}), share(), holder)


def test_in_a_memory_group_only_what_is_used_counts() -> None:
    undo = Undo(compute=ComputeRung.CGROUP, memory=MemoryRung.CGROUP)
    memory = TreeMemory(used_bytes=MIB, data_bytes={11: 900 * MIB})
    refuse_larger(undo, memory, share(), ProcessMark(pid=11, start_ticks=1))


@pytest.mark.parametrize("lease_id", ["", "../../etc", "a b", "lease_1/x", "é"])
def test_an_id_that_could_name_another_file_is_refused(lease_id: str) -> None:
    with pytest.raises(BackendError, match="not the id of a lease"):
        check_share(lease_id, share(), "CPU-1")


@pytest.mark.parametrize(("milli", "mib"), [(0, 1), (1001, 1), (1, 0)])
def test_a_share_of_nothing_or_too_much_is_refused(milli: int, mib: int) -> None:
    with pytest.raises(BackendError, match="is not a share"):
        check_share("lease_1", share(milli, mib), "CPU-1")


def test_a_record_of_another_backend_is_refused_in_a_sentence() -> None:
    attachment = Attachment(
        lease_id="lease_1",
        share=share(),
        holder=ProcessMark(pid=1, start_ticks=1),
        isolation=[],
        environment={},
        threads=None,
        undo=msgspec.Raw(b'{"attached_seconds": 3}'),
    )
    with pytest.raises(BackendError, match="record of lease_1"):
        load_undo(attachment)


def test_a_pool_that_a_kernel_started_sheds_the_kernels_limits() -> None:
    program = (
        "import os, resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_DATA)[1]\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**31, hard))\n"
        "every = os.sched_getaffinity(0)\n"
        "os.sched_setaffinity(0, {min(every)})\n"
        "from jupyter_gpupool.backends.shed import shed_inherited_limits\n"
        "print(shed_inherited_limits(), resource.getrlimit(resource.RLIMIT_DATA) == (hard, hard),\n"
        "      os.sched_getaffinity(0) == every, 'OMP_NUM_THREADS' in os.environ)\n"
        "print(repr(shed_inherited_limits()))\n"
    )
    environment = {**os.environ, ENV_LEASE: "lease_9", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["lease_9 True True False", "''"]
