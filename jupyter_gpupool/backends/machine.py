"""What of this machine is really usable by us: cores and memory, within containers too.

Rule of this module: the smallest of all limits on the way counts; a limit that cannot be read is no limit,
but a reading that cannot be read is ``None``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.affinity import parse_cores
from jupyter_gpupool.backends.cgroups import ControlGroups, cpu_limit, memory_limit, memory_used
from jupyter_gpupool.backends.procfs import ProcFS, read_int, read_text

#: The part of usable memory that is kept for the system: one in so many, and at least so many bytes.
_RESERVE_PART = 10
_RESERVE_BYTES = 512 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """The cores that we may use.

    Attributes
    ----------
    ids : frozenset of int
        Which.
    count : int
        How many at once: fewer than ``ids`` under a quota.
    """

    ids: frozenset[int]
    count: int


class Machine:
    """The machine that we run on, as we are allowed to see it.

    Parameters
    ----------
    root : Path
        What takes the place of "/".
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._groups = ControlGroups(root)
        self._procfs = ProcFS(root / "proc")

    def cores(self, affinity: frozenset[int] | None = None) -> Cores:
        """Find the usable cores: our affinity, within the cpuset and quota of each group above us."""
        ids = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
        for _, group in self._groups.above("cpuset"):
            ids = (ids & _cpuset(group)) or ids
        quotas = [limit for at in self._groups.above("cpu") if (limit := cpu_limit(*at)) is not None]
        return Cores(ids=ids, count=max(1, min([len(ids), *(int(quota) for quota in quotas)])))

    def memory_bytes(self) -> int | None:
        """Find the usable memory, bytes: what is installed, within the limit of each group above us."""
        limits = [limit for at in self._groups.above("memory") if (limit := memory_limit(*at)) is not None]
        installed = self._procfs.memory().get("MemTotal")
        return min(limits if installed is None else [*limits, installed], default=None)

    def memory_used_bytes(self) -> int | None:
        """Return how much of the usable memory is in use, by whomever; None if unknown."""
        meminfo = self._procfs.memory()
        if "MemTotal" not in meminfo or "MemAvailable" not in meminfo:
            return None
        for version, group in self._groups.above("memory"):
            limit = memory_limit(version, group)
            if limit is not None and limit < meminfo["MemTotal"]:
                return memory_used(version, group)
        return meminfo["MemTotal"] - meminfo["MemAvailable"]

    def model(self) -> str:
        """Return what the vendor calls the processor."""
        for line in (read_text(self._root / "proc/cpuinfo") or "").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
        return "CPU"

    def temperature_celsius(self) -> float | None:
        """Return the processor's temperature; None where no sensor tells it."""
        found: dict[bool, list[float]] = {True: [], False: []}
        for zone in sorted((self._root / "sys/class/thermal").glob("thermal_zone*")):
            milli = read_int(zone / "temp")
            kind = (read_text(zone / "type") or "").lower()
            if milli is not None and -50_000 < milli < 200_000:
                found[any(word in kind for word in ("cpu", "pkg", "core", "k10temp"))].append(milli / 1000)
        return max(found[True] or found[False], default=None)

    def core_times(self, ids: frozenset[int]) -> tuple[int, int]:
        """Return ``(busy, total)`` clock ticks since boot, summed over cores."""
        times = [spent for core, spent in self._procfs.core_times().items() if core in ids]
        return sum(busy for busy, _ in times), sum(total for _, total in times)


def reserve_bytes(usable: int) -> int:
    """Return how much of the usable memory is kept for the system, bytes; never more than half."""
    return min(max(usable // _RESERVE_PART, _RESERVE_BYTES), usable // 2)


def _cpuset(group: Path) -> frozenset[int]:
    """Return the cores of a group's cpuset; empty if it has none."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        try:
            if cores := parse_cores(read_text(group / name) or ""):
                return frozenset(cores)
        except ValueError:
            continue
    return frozenset()
