"""How busy a tree of processes is."""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.treetime import TreeTime

A, B = ProcessMark(pid=7, start_ticks=100), ProcessMark(pid=8, start_ticks=200)


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def used(root: Path, mark: ProcessMark, user: int, system: int = 0) -> None:
    """Write how much a process has computed, ticks."""
    fields = ["S", "1", "1", "1", "0", "-1", *["0"] * 5, str(user), str(system), "0", "0", *["0"] * 4]
    (root / str(mark.pid)).mkdir(exist_ok=True)
    (root / str(mark.pid) / "stat").write_text(f"{mark.pid} (a b) {' '.join(fields)} {mark.start_ticks} 0\n")


def test_what_was_computed_since_the_last_look_is_told(tmp_path: Path) -> None:
    clock = Clock()
    tree = TreeTime(ProcFS(tmp_path), clock)
    used(tmp_path, A, 500)
    assert tree.percent("it", [A], 2) is None, "the first look knows nothing"
    clock.seconds += 1.0
    used(tmp_path, A, 550, 50)
    assert tree.percent("it", [A], 2) == 50.0
    assert tree.percent("it", [A], 2) == 50.0, "a look right afterwards says the same"
    clock.seconds += 1.0
    used(tmp_path, B, 20)
    assert tree.percent("it", [A, B], 2) == 10.0, "a new process counts from its beginning"
    clock.seconds += 1.0
    assert tree.percent("it", [B], 2) == 0.0


def test_another_process_with_the_same_pid_is_not_counted(tmp_path: Path) -> None:
    used(tmp_path, A, 500)
    assert ProcFS(tmp_path).cpu_ticks(A) == 500
    assert ProcFS(tmp_path).cpu_ticks(ProcessMark(pid=7, start_ticks=101)) is None
    assert ProcFS(tmp_path).cpu_ticks(B) is None


def test_a_tree_of_which_nothing_is_left_is_unknown(tmp_path: Path) -> None:
    clock = Clock()
    tree = TreeTime(ProcFS(tmp_path), clock)
    used(tmp_path, A, 0)
    tree.percent("it", [A], 1)
    clock.seconds += 1.0
    assert tree.percent("it", [], 1) is None
    tree.forget("it")
    assert tree.percent("it", [A], 1) is None
