"""The control groups that we make for leases.

Rules of this module: no holder is ever moved out from under a limit that somebody else set; the memory
controller of version 1 is never written to; a group of ours is removed with its lease.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

from jupyter_gpupool.backends import cgroups
from jupyter_gpupool.backends.procfs import ProcFS, read_text
from jupyter_gpupool.backends.undo import GroupRecord

#: Directory (version 1) or prefix (version 2) of our groups.
OUR_GROUP = "jupyter_gpupool"
#: Over how long a cpu quota is counted, microseconds: the kernel's default.
PERIOD_US = 100_000
#: The smallest quota that the kernel takes, microseconds.
_LEAST_QUOTA_US = 1_000
#: After how long an empty group counts as abandoned, seconds; a lease that begins fills its own at once.
_ABANDONED_SECONDS = 60.0
#: How long the last threads of processes that have ended may take to leave a group, seconds.
_LEAVING_SECONDS = 1.0
#: For how long a group is made again while other pools remove the directory that it belongs in, seconds.
_MOST_SECONDS = 5.0
#: Longest pause between two tries, seconds: by chance, so that two pools do not keep step.
_LONGEST_PAUSE = 0.002
#: How each of our limits is taken away.
_UNLIMITED = {
    "cpu.cfs_quota_us": "-1",
    "cpu.max": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "pids.max": "max",
}


class NotDelegated(Exception):
    """Raised when no control group can be used; the message says why, and another rung is taken."""


def v1_base(groups: cgroups.ControlGroups, pid: int, controller: str = "cpu") -> Path:
    """Return the version 1 group below which a holder's own can be made: the one it is in.

    Raises
    ------
    NotDelegated
        If there is none that we may write to.
    """
    hierarchy = groups.with_controller(controller)
    if hierarchy is None or hierarchy.version != 1:
        raise NotDelegated(f"no version 1 {controller} controller is mounted")
    directory = groups.where(hierarchy, controller, pid)
    if directory is None:
        raise NotDelegated("the holder's control group is not visible here")
    directory = _without_ours(directory)
    if controller == "cpu" and not (directory / "cpu.cfs_quota_us").is_file():
        raise NotDelegated(f"{directory} has no cpu quota")
    return _writable(directory)


def v2_base(groups: cgroups.ControlGroups, pid: int, controllers: frozenset[str]) -> Path:
    """Return the version 2 group below which a holder's own can be made: the nearest delegated one above it.

    Raises
    ------
    NotDelegated
        If there is none, or the holder would leave a limit that somebody set.
    """
    hierarchy = next((each for each in groups.hierarchies() if each.version == 2), None)
    if hierarchy is None or not controllers <= hierarchy.controllers:
        raise NotDelegated(f"no version 2 control group has {' and '.join(sorted(controllers))}")
    directory = groups.where(hierarchy, "", pid)
    if directory is None:
        raise NotDelegated("the holder's control group is not visible here")
    while directory != hierarchy.mount:
        if not _is_ours(directory) and _limits(directory):
            raise NotDelegated(f"the holder would leave the limits of {directory}")
        directory = directory.parent
        with contextlib.suppress(OSError, NotDelegated):
            return _enabled(_writable(directory), controllers)
    raise NotDelegated("no control group above the holder is delegated to the agent")


def home(groups: cgroups.ControlGroups, pid: int, version: int, controller: str = "cpu") -> Path | None:
    """Return the group that a process is in outside ours; None if it is not visible here."""
    directory = _present(groups, pid, version, controller)
    return None if directory is None else _without_ours(directory)


def base_of(group: GroupRecord) -> Path:
    """Return the group below which one of ours lies."""
    path = Path(group.path)
    return path.parent.parent if group.version == 1 else path.parent


def leave_ours(groups: cgroups.ControlGroups, pid: int) -> None:
    """Move a process out of groups of ours, if it is in any."""
    for version, controller in ((1, "cpu"), (1, "pids"), (2, "")):
        directory = _present(groups, pid, version, controller)
        outside = home(groups, pid, version, controller)
        if outside is not None and outside != directory:
            with contextlib.suppress(OSError):  # it takes no processes; ours is removed with its lease
                move(pid, outside)


def _present(groups: cgroups.ControlGroups, pid: int, version: int, controller: str) -> Path | None:
    """Return the group that a process is in, in the hierarchy in which we make groups."""
    for hierarchy in groups.hierarchies():
        if hierarchy.version == version and (version == 2 or controller in hierarchy.controllers):
            return groups.where(hierarchy, controller, pid)
    return None


def _is_ours(directory: Path) -> bool:
    """Say whether a version 2 group is one of ours."""
    return directory.name.startswith(f"{OUR_GROUP}-")


def _limits(directory: Path) -> bool:
    """Say whether a version 2 group limits what we would limit."""
    return cgroups.cpu_limit(2, directory) is not None or cgroups.memory_limit(2, directory) is not None


def _without_ours(directory: Path) -> Path:
    """Step out of a group of another lease."""
    if _is_ours(directory):
        return directory.parent
    return directory.parent.parent if directory.parent.name == OUR_GROUP else directory


def _writable(directory: Path) -> Path:
    """Check that groups can be made and processes moved here."""
    if not (os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)):
        raise NotDelegated(f"{directory} is not writable")
    return directory


def _enabled(directory: Path, controllers: frozenset[str]) -> Path:
    """Give the groups below ``directory`` the controllers, if they have not."""
    have = set((read_text(directory / "cgroup.controllers") or "").split())
    if not controllers <= have:
        raise NotDelegated(f"{directory} has not all of {' and '.join(sorted(controllers))}")
    given = set((read_text(directory / "cgroup.subtree_control") or "").split())
    for controller in sorted(controllers - given):
        (directory / "cgroup.subtree_control").write_text(f"+{controller}")
    return directory


# --- a group of ours --------------------------------------------------------------------------------


def group_path(base: Path, version: int, name: str) -> Path:
    """Return where a group lies that is, or will be, made below ``base``."""
    return base / OUR_GROUP / name if version == 1 else base / f"{OUR_GROUP}-{name}"


def make_group(base: Path, version: int, name: str) -> Path:
    """Make the group of a lease (or take the one that is there), and sweep abandoned ones away."""
    group = group_path(base, version, name)
    keep_group(group, version)
    _sweep(group.parent.iterdir() if version == 1 else base.glob(f"{OUR_GROUP}-*"))
    return group


def keep_group(group: Path, version: int) -> bool:
    """Make a group if it is not there; say whether it had to be made.

    In version 1 all pools of a machine share the directory above, and whoever removes the last group in it
    removes that too: also between our making it and our using it.

    Raises
    ------
    FileNotFoundError
        If the group that it belongs below is gone.
    """
    latest = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < latest:
        if version == 1:
            with contextlib.suppress(FileExistsError):  # `exist_ok` raises it where it is removed meanwhile
                group.parent.mkdir()
        try:
            group.mkdir()
        except FileExistsError:
            return False
        except FileNotFoundError:
            if version != 1 or not group.parent.parent.is_dir():
                raise
            time.sleep(random.uniform(0.0, _LONGEST_PAUSE))  # noqa: S311 - nothing is secret here
        else:
            return True
    raise FileNotFoundError(2, "others remove it as often as it is made", str(group))


def make_groups(groups: Iterable[GroupRecord]) -> None:
    """Make the groups of a lease that were planned."""
    for group in groups:
        path = Path(group.path)
        make_group(base_of(group), group.version, path.name.removeprefix(f"{OUR_GROUP}-"))


def limit_groups(groups: Iterable[GroupRecord], cores: float, processes: int | None) -> None:
    """Limit compute and processes of groups that are there for it."""
    for group in groups:
        path = Path(group.path)
        if group.cpu:
            set_cpu(group.version, path, cores)
        if group.processes and processes is not None:
            (path / "pids.max").write_text(str(processes))


def _sweep(groups: Iterable[Path]) -> None:
    """Remove groups that pools which were killed left behind: the kernel keeps those with processes."""
    for group in groups:
        with contextlib.suppress(OSError):
            if group.is_dir() and time.time() - group.stat().st_mtime > _ABANDONED_SECONDS:
                group.rmdir()


def remove_group(group: Path) -> None:
    """Remove a group of ours if nothing that lives is left in it; otherwise take its limits away."""
    try:
        removed = _removed(group)
    except FileNotFoundError:
        return
    if not removed:
        for name, unlimited in _UNLIMITED.items():
            with contextlib.suppress(OSError):
                if (group / name).exists():
                    (group / name).write_text(unlimited)
    if group.parent.name == OUR_GROUP:
        with contextlib.suppress(OSError):  # other leases have groups in it
            group.parent.rmdir()


def _removed(group: Path) -> bool:
    """Remove a group, and tell whether that went.

    A process that is killed counts as ended when its first thread has ended; the others leave the group a
    moment later, and are waited for.
    """
    latest = time.monotonic() + _LEAVING_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            raise
        except OSError:
            if time.monotonic() > latest or not all(_has_ended(pid) for pid in members(group)):
                return False
            time.sleep(_LONGEST_PAUSE)
        else:
            return True


def _has_ended(pid: int) -> bool:
    stat = ProcFS().stat(pid)
    return stat is None or stat.over


def remove_groups(groups: Iterable[GroupRecord]) -> None:
    """Remove the groups of a lease."""
    for group in groups:
        remove_group(Path(group.path))


def set_cpu(version: int, group: Path, cores: float) -> None:
    """Let a group use so many cores' worth of time."""
    quota = max(_LEAST_QUOTA_US, round(cores * PERIOD_US))
    if version == 2:
        (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))


def set_memory(group: Path, size: int) -> None:
    """Let a version 2 group use so much memory, and no swap."""
    (group / "memory.max").write_text(str(size))
    with contextlib.suppress(OSError):  # there is no such file without swap
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")


def move(pid: int, group: Path) -> None:
    """Move a process with all its threads into a group."""
    (group / "cgroup.procs").write_text(str(pid))


def members(group: Path) -> set[int]:
    """Return the processes in a group; empty if it is gone."""
    return {int(word) for word in (read_text(group / "cgroup.procs") or "").split() if word.isdigit()}


def open_to(group: Path, uid: int) -> bool:
    """Say whether a user could take processes out of a group, or change its limits."""
    if uid == 0:
        return True
    for path in (group, group / "cgroup.procs", group.parent / "cgroup.procs"):
        try:
            status = path.stat()
        except OSError:
            return True
        if status.st_uid == uid or status.st_mode & 0o022:
            return True
    return False
