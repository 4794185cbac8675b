"""Which cores the threads of other processes may run on.

Rules of this module: affinity belongs to threads, so every thread of a process is visited; a thread that had
its own cores gets exactly those back, and one born later gets its process's.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.undo import ProcessRecord, ThreadRecord


def format_cores(cores: Iterable[int]) -> str:
    """Write cores as the kernel does: "0-3,7"."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def parse_cores(text: str) -> set[int]:
    """Read "0-3,7".

    Raises
    ------
    ValueError
        If it is not a list of cores.
    """
    cores: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cores.update(range(int(first), int(last or first) + 1))
    return cores


def cores_of(tid: int) -> set[int]:
    """Return the cores that a thread may run on.

    Raises
    ------
    ProcessLookupError
        If it is gone.
    """
    return os.sched_getaffinity(tid)


def choose_cores(wanted: int, usable: Collection[int], load: Mapping[int, float]) -> list[int]:
    """Pick the ``wanted`` least loaded cores; ties go to the lowest numbers."""
    ranked = sorted(usable, key=lambda core: (load.get(core, 0.0), core))
    return sorted(ranked[: max(1, wanted)])


def remember(procfs: ProcFS, record: ProcessRecord) -> None:
    """Note the threads of a process that have other cores than its main thread."""
    for tid in procfs.threads(record.pid):
        started = procfs.thread_start_ticks(record.pid, tid)
        try:
            cpus = format_cores(cores_of(tid))
        except ProcessLookupError:
            continue
        if cpus != record.cpus and started is not None:
            record.threads.append(ThreadRecord(tid=tid, start_ticks=started, cpus=cpus))


def confine(procfs: ProcFS, record: ProcessRecord, cores: Collection[int], *, afresh: bool = False) -> int:
    """Keep every thread of a process on ``cores``; return how many had to be changed.

    A thread that was, or put itself, on fewer of them stays there. With ``afresh`` each thread starts from
    its original cores, so that a larger set takes effect too.
    """
    allowed, changed = set(cores), 0
    for tid in procfs.threads(record.pid):
        try:
            present = cores_of(tid)
            base = _original(procfs, record, tid) if afresh else present
            target = (base & allowed) or allowed
            if target != present:
                os.sched_setaffinity(tid, target)
                changed += 1
        except ProcessLookupError:
            continue
    return changed


def strays(procfs: ProcFS, pid: int, cores: Collection[int]) -> list[int]:
    """List the threads of a process that may run elsewhere than on ``cores``."""
    allowed, found = set(cores), []
    for tid in procfs.threads(pid):
        try:
            if not cores_of(tid) <= allowed:
                found.append(tid)
        except ProcessLookupError:
            continue
    return found


def restore(procfs: ProcFS, record: ProcessRecord) -> int:
    """Give every thread of a process its original cores back; return how many had to be changed."""
    changed = 0
    for tid in procfs.threads(record.pid):
        try:
            target = _original(procfs, record, tid)
            if cores_of(tid) != target:
                os.sched_setaffinity(tid, target)
                changed += cores_of(tid) == target  # cores that went offline meanwhile stay away
        except ProcessLookupError:
            continue
    return changed


def _original(procfs: ProcFS, record: ProcessRecord, tid: int) -> set[int]:
    """Return the cores that a thread had, or would have had."""
    for thread in record.threads:
        if thread.tid == tid and procfs.thread_start_ticks(record.pid, tid) == thread.start_ticks:
            return parse_cores(thread.cpus)
    return parse_cores(record.cpus)
