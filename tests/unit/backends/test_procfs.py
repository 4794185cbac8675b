"""Reading /proc, also where it is strange."""

from __future__ import annotations

import os

import pytest

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.processtree import ProcessTable, ProcessWatch
from jupyter_gpupool.backends.procfs import ProcFS, parse_stat, read_bytes, read_int
from tests.unit.backends.conftest import Build

#: Pids that no process of this machine has: the table leaves out the process that looks.
A, B, C, D, E = 4100001, 4100002, 4100003, 4100004, 4100005


def line(
    pid: int, ppid: int, *, session: int = 1, start: int = 100, state: str = "S", name: str = "x"
) -> str:
    """Write a line of /proc/PID/stat."""
    return f"{pid} ({name}) {state} {ppid} {pid} {session} 0 -1 {'0 ' * 12}0 {start} 0 0\n"


def processes(*lines: str) -> dict[str, str]:
    """Write the files of some processes."""
    return {f"proc/{each.split()[0]}/stat": each for each in lines}


def pids(marks: list[ProcessMark]) -> list[int]:
    return [mark.pid for mark in marks]


def mark(pid: int, start: int = 100) -> ProcessMark:
    return ProcessMark(pid=pid, start_ticks=start)


def test_this_process_is_read_as_it_is() -> None:
    procfs = ProcFS()
    stat, status = procfs.stat(os.getpid()), procfs.status(os.getpid())
    assert stat is not None
    assert status is not None
    assert (stat.pid, stat.ppid, stat.session) == (os.getpid(), os.getppid(), os.getsid(0))
    assert procfs.alive(stat.mark)
    assert not procfs.alive(ProcessMark(pid=os.getpid(), start_ticks=stat.start_ticks + 1))
    assert status.uid == os.geteuid()
    assert status.data_bytes > 0
    assert (status.resident_bytes or 0) > 0
    assert (procfs.proportional_bytes(os.getpid()) or 0) > 0
    assert os.getpid() in procfs.threads(os.getpid())
    assert os.getpid() in procfs.processes()


@pytest.mark.parametrize("name", ["a b", "a) S 1 (b", "((", "name)"])
def test_a_command_may_contain_anything(name: str) -> None:
    stat = parse_stat(line(A, 7, session=3, start=42, name=name).encode())
    assert stat is not None
    assert (stat.pid, stat.ppid, stat.session, stat.start_ticks) == (A, 7, 3, 42)


@pytest.mark.parametrize("data", [b"", b"12", b"12 (x) S 1", b"x (x) S 1 1 1"])
def test_half_a_line_is_nothing(data: bytes) -> None:
    assert parse_stat(data) is None


def test_what_is_gone_reads_as_none(machine_of: Build) -> None:
    procfs = ProcFS(machine_of({"proc/self/x": ""}) / "proc")
    assert procfs.stat(A) is None
    assert procfs.status(A) is None
    assert procfs.proportional_bytes(A) is None
    assert procfs.threads(A) == []
    assert procfs.command(A) == []
    assert procfs.control_groups(A) == {}
    assert read_bytes("/proc") is None
    assert read_int("/proc/self/stat") is None


def test_kernel_threads_have_no_data_memory(machine_of: Build) -> None:
    files = {f"proc/{A}/status": "Name:\tkthreadd\nUid:\t0\t0\t0\t0\nThreads:\t1\n"}
    assert ProcFS(machine_of(files) / "proc").status(A) is None


def test_without_a_split_resident_memory_is_the_whole_less_files(machine_of: Build) -> None:
    text = "Uid:\t1\t2\t3\t4\nVmData:\t  100 kB\nVmRSS:\t 50 kB\nRssFile:\t 20 kB\n"
    status = ProcFS(machine_of({f"proc/{A}/status": text}) / "proc").status(A)
    assert status is not None
    assert (status.uid, status.data_bytes, status.resident_bytes) == (2, 100 * 1024, 30 * 1024)
    unknown = text.replace("RssFile", "RssOther")
    status = ProcFS(machine_of({f"proc/{A}/status": unknown}) / "proc").status(A)
    assert status is not None
    assert status.resident_bytes is None


def test_a_tree_is_children_and_their_children(machine_of: Build) -> None:
    root = machine_of(processes(line(A, 1), line(B, A), line(C, B), line(D, 1), line(E, A, state="Z")))
    table = ProcessTable(ProcFS(root / "proc"))
    assert pids(table.tree(mark(A), (), ())) == [A, B, C]
    assert table.ancestors(C) == [B, A, 1]


def test_known_processes_stay_when_their_parents_die(machine_of: Build) -> None:
    root = machine_of(processes(line(A, 1), line(C, 1), line(D, C)))
    table = ProcessTable(ProcFS(root / "proc"))
    assert pids(table.tree(mark(A), [mark(C)], ())) == [A, C, D]
    assert pids(table.tree(mark(B), [mark(C), mark(A, 99)], ())) == [C, D]


def test_the_session_that_a_holder_leads_belongs_to_it(machine_of: Build) -> None:
    files = processes(
        line(A, 1, session=A), line(B, 1, session=A), line(C, D, session=A), line(D, A, session=A)
    )
    table = ProcessTable(ProcFS(machine_of(files) / "proc"))
    assert sorted(pids(table.tree(mark(A), (), ()))) == [A, B, C, D]
    assert sorted(pids(table.tree(mark(A), (), {D}))) == [A, B]
    assert pids(table.tree(mark(B), (), ())) == [B]


def test_holders_of_other_leases_are_left_out_with_their_children(machine_of: Build) -> None:
    table = ProcessTable(
        ProcFS(machine_of(processes(line(A, 1), line(B, A), line(C, B), line(D, A))) / "proc")
    )
    assert pids(table.tree(mark(A), (), {B})) == [A, D]
    assert pids(table.tree(mark(B), (), {A})) == [B, C]


def test_the_pools_own_processes_belong_to_nobody(machine_of: Build) -> None:
    files = processes(line(A, 1), line(B, A, session=B), line(C, B), line(D, A, session=D), line(E, A))
    files[f"proc/{B}/cmdline"] = "python\0-m\0jupyter_gpupool\0serve\0--embedded\0"
    files[f"proc/{D}/cmdline"] = "python\0-m\0jupyter_gpupool\0status\0"
    files[f"proc/{E}/cmdline"] = "python\0-m\0jupyter_gpupool\0serve\0"
    table = ProcessTable(ProcFS(machine_of(files) / "proc"))
    assert sorted(pids(table.tree(mark(A), (), ()))) == [A, D, E]
    assert sorted(pids(table.tree(mark(A), [mark(B)], ()))) == [A, D, E]


def test_a_child_that_becomes_a_pool_leaves_the_tree_at_once(machine_of: Build) -> None:
    root = machine_of(processes(line(A, 1, session=A), line(B, A, session=A)))
    watch = ProcessWatch(ProcFS(root / "proc"), lambda: 0.0)
    assert pids(watch.look(mark(A)).tree(mark(A), (), ())) == [A, B]
    later = processes(line(B, 1, session=B))
    later[f"proc/{B}/cmdline"] = "python\0-m\0jupyter_gpupool\0serve\0"
    machine_of(later)
    assert pids(watch.look(mark(A)).tree(mark(A), [mark(B)], ())) == [A]


def test_a_watch_sees_new_processes_at_once_and_the_rest_later(machine_of: Build) -> None:
    now = [0.0]
    root = machine_of(processes(line(A, 1)))
    watch = ProcessWatch(ProcFS(root / "proc"), lambda: now[0])
    assert pids(watch.look(mark(A)).tree(mark(A), (), ())) == [A]
    machine_of(processes(line(B, A), line(A, 1, start=200)))
    assert pids(watch.look(mark(A), within_seconds=1).tree(mark(A), (), ())) == [A]
    assert pids(watch.look(mark(A)).tree(mark(A), (), ())) == [A, B]
    assert pids(watch.look(mark(A, 200)).tree(mark(A, 200), (), ())) == [A, B]
    now[0] = 60.0
    assert pids(watch.look(mark(A)).tree(mark(A), (), ())) == []
