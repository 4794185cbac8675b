"""Control groups: where they are mounted, which one a process is in, and what it allows.

Rules of this module: it only reads; a controller is there when the kernel's files say so (a plain ``mkdir``
under /sys/fs/cgroup succeeds on machines that have none).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.procfs import ProcFS, read_int, read_text

#: Version 1 writes "no limit" as a number of about this size, bytes.
_V1_UNLIMITED = 1 << 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Hierarchy:
    """One mounted tree of control groups.

    Attributes
    ----------
    version : int
        1 or 2.
    mount : Path
        Where it is mounted.
    inner : str
        Which of its groups is mounted there; "/" for its root.
    controllers : frozenset of str
        What can be limited in it.
    """

    version: int
    mount: Path
    inner: str
    controllers: frozenset[str]


class ControlGroups:
    """The control groups of this machine.

    Parameters
    ----------
    root : Path
        What takes the place of "/": tests read trees made of plain files.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._procfs = ProcFS(root / "proc")

    def hierarchies(self) -> list[Hierarchy]:
        """List the mounted hierarchies."""
        text = read_text(self._root / "proc/self/mountinfo") or ""
        return [found for line in text.splitlines() if (found := self._hierarchy(line)) is not None]

    def _hierarchy(self, line: str) -> Hierarchy | None:
        """Read one line of mountinfo; None if it is about something else."""
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:
            return None
        mount = self._root / fields[4].lstrip("/")
        if kind[0] == "cgroup2":
            names = (read_text(mount / "cgroup.controllers") or "").split()
        else:
            names = kind[2].split(",")
        return Hierarchy(
            version=2 if kind[0] == "cgroup2" else 1,
            mount=mount,
            inner=fields[3],
            controllers=frozenset(names),
        )

    def with_controller(self, controller: str) -> Hierarchy | None:
        """Return the hierarchy that has a controller; None if none has."""
        return next((each for each in self.hierarchies() if controller in each.controllers), None)

    def where(self, hierarchy: Hierarchy, controller: str, pid: int | str = "self") -> Path | None:
        """Return the directory of a process's group; None if it is not visible here."""
        path = self._procfs.control_groups(pid).get("" if hierarchy.version == 2 else controller)
        if path is None or "/.." in path:
            return None
        inner = hierarchy.inner.rstrip("/")
        if inner and (path == inner or path.startswith(inner + "/")):
            path = path[len(inner) :]
        directory = hierarchy.mount / path.lstrip("/")
        return directory if directory.is_dir() else None

    def above(self, controller: str) -> Iterator[tuple[int, Path]]:
        """Yield ``(version, directory)`` of our own group and each one above it."""
        hierarchy = self.with_controller(controller)
        if hierarchy is None:
            return
        directory = self.where(hierarchy, controller) or hierarchy.mount
        while directory != hierarchy.mount:
            yield hierarchy.version, directory
            directory = directory.parent
        yield hierarchy.version, hierarchy.mount


# --- what a group allows ----------------------------------------------------------------------------


def cpu_limit(version: int, group: Path) -> float | None:
    """Return how many cores a group may use; None for no limit."""
    if version == 2:
        quota, _, period = (read_text(group / "cpu.max") or "").strip().partition(" ")
    else:
        quota = (read_text(group / "cpu.cfs_quota_us") or "").strip()
        period = (read_text(group / "cpu.cfs_period_us") or "").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def memory_limit(version: int, group: Path) -> int | None:
    """Return how much memory a group may use, bytes; None for no limit."""
    limit = read_int(group / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
    return None if limit is None or limit >= _V1_UNLIMITED else limit


def memory_used(version: int, group: Path) -> int | None:
    """Return how much memory a group uses, less the file cache that can be dropped; None if unknown."""
    used = read_int(group / ("memory.current" if version == 2 else "memory.usage_in_bytes"))
    idle = group_statistic(group, "inactive_file" if version == 2 else "total_inactive_file")
    return None if used is None else max(0, used - (idle or 0))


def group_statistic(group: Path, name: str) -> int | None:
    """Return one line of a group's memory.stat, bytes; None if it is not there."""
    for line in (read_text(group / "memory.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None
