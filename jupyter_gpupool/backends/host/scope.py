"""Transient scopes: control groups that systemd makes for running processes where we may not make our own.

Rules of this module: `busctl` speaks to the manager (the user's own, or the system's for root), in bounded
time; that a process is in the scope is read from /proc, not assumed. A scope cannot be left again without
privilege, so it is undone by taking its limits away; it ends with its last process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from jupyter_gpupool.backends.base import LimitNotInForce, ProcessMark
from jupyter_gpupool.backends.host.plan import Wanted
from jupyter_gpupool.backends.procfs import ProcFS

_SERVICE = "org.freedesktop.systemd1"
_OBJECT = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_SCOPE = "org.freedesktop.systemd1.Scope"
#: What the names of holders' scopes begin with.
_PREFIX = "jupyter_gpupool-"
_NO_LIMITS = Wanted(cores_milli=0, memory_bytes=None, processes=None)
#: How systemd writes "no limit".
_INFINITY = 2**64 - 1
#: How long one call may take, and how long until the processes are in their scope, seconds.
_CALL_SECONDS, _MOVE_SECONDS = 5.0, 3.0


class Scopes:
    """The transient scopes that one manager makes for us.

    Parameters
    ----------
    busctl : str
        The program.
    procfs : ProcFS
        Where processes are looked at.
    booted : Path
        Is there where systemd is the machine's manager.
    """

    def __init__(
        self,
        busctl: str = "busctl",
        procfs: ProcFS | None = None,
        booted: Path = Path("/run/systemd/system"),
    ) -> None:
        self._busctl = busctl
        self._procfs = procfs or ProcFS()
        self._booted = booted

    def impossible(self) -> str:
        """Say why there are no scopes here, one clause; empty when there are."""
        if not self._booted.is_dir():
            return "systemd does not manage this machine"
        if shutil.which(self._busctl) is None:
            return "there is no busctl"
        if os.geteuid() and not (Path(os.environ.get("XDG_RUNTIME_DIR", "")) / "bus").exists():
            return "the user has no systemd manager (no bus in XDG_RUNTIME_DIR)"
        return ""

    def start(self, unit: str, tree: Sequence[ProcessMark], wanted: Wanted) -> None:
        """Make a scope with limits, and put running processes into it.

        Raises
        ------
        LimitNotInForce
            If systemd refuses, or the processes are not in it in time.
        """
        pids = [str(mark.pid) for mark in tree]
        properties = [
            *("Description", "s", "A holder of jupyter_gpupool"),
            *("PIDs", "au", str(len(pids)), *pids),
            *("CollectMode", "s", "inactive-or-failed"),
        ]
        limits = _properties(wanted)
        count = 3 + len(limits) // 3
        self._call(
            *("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", str(count), *properties, *limits, "0")
        )
        until = time.monotonic() + _MOVE_SECONDS
        while outside := [mark.pid for mark in tree if not self._inside(unit, mark)]:
            if time.monotonic() > until:
                raise LimitNotInForce(f"systemd made {unit}, but did not move process {outside[0]} into it.")
            time.sleep(0.01)

    def change(self, unit: str, wanted: Wanted) -> None:
        """Give a scope other limits.

        Raises
        ------
        LimitNotInForce
            If systemd refuses.
        """
        limits = _properties(wanted)
        self._call("SetUnitProperties", "sba(sv)", unit, "true", str(len(limits) // 3), *limits)

    def release(self, unit: str) -> None:
        """Take the limits of a scope away; nothing where it has ended.

        Raises
        ------
        LimitNotInForce
            If systemd refuses.
        """
        try:
            self.change(unit, _NO_LIMITS)
        except LimitNotInForce:
            if self.in_force(unit) is not None:
                raise

    def in_force(self, unit: str) -> tuple[int, int, int] | None:
        """Read the limits of a scope: microseconds of compute a second, bytes, tasks; None when it ended."""
        path = f"{_OBJECT}/unit/{_escaped(unit)}"
        names = ("CPUQuotaPerSecUSec", "MemoryMax", "TasksMax")
        try:
            answer = self._run("get-property", _SERVICE, path, _SCOPE, *names)
        except LimitNotInForce:
            return None
        values = [int(line.split()[1]) for line in answer.splitlines() if line.startswith("t ")]
        return (values[0], values[1], values[2]) if len(values) == len(names) else None

    def verify(self, unit: str, wanted: Wanted) -> None:
        """Look at what is in force.

        Raises
        ------
        LimitNotInForce
            If it is not what was set.
        """
        seen, expected = self.in_force(unit), tuple(int(value) for value in _properties(wanted)[2::3])[:3]
        if seen != expected:
            raise LimitNotInForce(f"The limits of {unit} read {seen}, not {expected}.", hint="Report it.")

    def _inside(self, unit: str, mark: ProcessMark) -> bool:
        """Say whether a process is in a scope, or needs not be any more."""
        groups = self._procfs.control_groups(mark.pid)
        return not self._procfs.alive(mark) or any(path.endswith(f"/{unit}") for path in groups.values())

    def _call(self, method: str, *arguments: str) -> None:
        self._run("call", _SERVICE, _OBJECT, _MANAGER, method, *arguments)

    def _run(self, *arguments: str) -> str:
        """Run busctl."""
        bus = "--user" if os.geteuid() else "--system"
        command = [self._busctl, bus, "--no-pager", *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program, and arguments of our own
                command, capture_output=True, text=True, timeout=_CALL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LimitNotInForce(f"systemd cannot be asked: {error}.") from error
        if done.returncode:
            raise LimitNotInForce(f"systemd refuses: {done.stderr.strip() or done.returncode}.")
        return done.stdout


def leave_scope(scopes: Scopes, procfs: ProcFS) -> None:
    """Move this process out of the scope of a holder that started it, into one without limits.

    Raises
    ------
    LimitNotInForce
        If systemd refuses.
    """
    unit = procfs.control_groups(os.getpid()).get("", "").rpartition("/")[2]
    stat = procfs.stat(os.getpid())
    if unit.startswith(_PREFIX) and unit.endswith(".scope") and stat is not None:
        scopes.start(f"jupyter_gpupool_pool-{os.getpid()}.scope", [stat.mark], _NO_LIMITS)


def scope_of(lease_id: str, holder: ProcessMark) -> str:
    """Return the name of a holder's scope: no two processes have the same."""
    return f"{_PREFIX}{lease_id}-{holder.pid}.scope"


def _properties(wanted: Wanted) -> list[str]:
    """Write limits as busctl takes properties: name, type, value."""
    quota = wanted.cores_milli * 1000 or _INFINITY
    memory = _INFINITY if wanted.memory_bytes is None else wanted.memory_bytes
    tasks = _INFINITY if wanted.processes is None else wanted.processes
    return [
        *("CPUQuotaPerSecUSec", "t", str(quota)),
        *("MemoryMax", "t", str(memory)),
        *("TasksMax", "t", str(tasks)),
    ]


def _escaped(unit: str) -> str:
    """Write a unit's name as part of a D-Bus path."""
    return "".join(each if each.isascii() and each.isalnum() else f"_{ord(each):02x}" for each in unit)
