"""What is in force for a process, read from the kernel's own files."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def soft_data_limit(pid: int) -> int:
    """Return the soft RLIMIT_DATA of a process, bytes; -1 when there is none."""
    return resource.prlimit(pid, resource.RLIMIT_DATA)[0]


def cpu_group(pid: int) -> str:
    """Return the CPU control group of a process (v1, else v2); empty when there is none."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return groups.get("cpu", groups.get("cpu,cpuacct", groups.get("", "")))


def in_force(pid: int) -> tuple[int, str, frozenset[int]]:
    """Return everything that a lease may have changed for a process."""
    return soft_data_limit(pid), cpu_group(pid), frozenset(os.sched_getaffinity(pid))


def lives(pid: int) -> bool:
    """Tell whether a process exists and has not ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
