"""Reading /proc: the only place that knows its formats.

Rules of this module: it only reads; what cannot be read is ``None``, never 0; a process is named by its pid
*and* start time wherever something will be done to it. The root is a constructor argument, so that tests
read trees made of plain files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.base import ProcessMark

#: States of /proc/PID/stat in which nothing runs any more: a zombie holds no memory and takes no limits.
_OVER = frozenset({"Z", "X", "x"})
#: Bytes read at once; most files of /proc are smaller.
_CHUNK_BYTES = 16384


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessStat:
    """One line of /proc/PID/stat, as far as it matters here.

    Attributes
    ----------
    pid, ppid, session : int
        The process, its parent, and the leader of its session.
    start_ticks : int
        When it started, clock ticks since boot.
    over : bool
        True for a zombie.
    """

    pid: int
    ppid: int
    session: int
    start_ticks: int
    over: bool

    @property
    def mark(self) -> ProcessMark:
        """Return the process's name for life."""
        return ProcessMark(pid=self.pid, start_ticks=self.start_ticks)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessStatus:
    """What /proc/PID/status says.

    Attributes
    ----------
    uid : int
        Effective user.
    data_bytes : int
        VmData: what RLIMIT_DATA counts.
    resident_bytes : int or None
        Anonymous and shared memory in RAM (RssAnon + RssShmem); an upper bound of what the process is
        answerable for, because it counts pages shared with others in full.
    """

    uid: int
    data_bytes: int
    resident_bytes: int | None


def read_bytes(path: str) -> bytes | None:
    """Read a small file; None if it is not there, gone, or not ours to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(descriptor, _CHUNK_BYTES):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # the process ended between open and read
        return None
    finally:
        os.close(descriptor)


def read_text(path: str | Path) -> str | None:
    """Read a small text file; None if it cannot be read."""
    data = read_bytes(str(path))
    return None if data is None else data.decode(errors="replace")


def read_int(path: str | Path) -> int | None:
    """Read a file that holds one integer; None if it cannot be read or holds none ("max")."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def parse_stat(data: bytes) -> ProcessStat | None:
    """Read one line of /proc/PID/stat; the command in it may contain spaces and parentheses."""
    head, _, tail = data.rpartition(b")")
    fields = tail.split()
    try:
        return ProcessStat(
            pid=int(head.split(b" ", 1)[0]),
            ppid=int(fields[1]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
            over=fields[0].decode() in _OVER,
        )
    except (IndexError, ValueError):
        return None


def _kib_fields(text: str) -> Iterator[tuple[str, int]]:
    """Yield ``name, bytes`` of the lines that read ``Name:  12 kB``."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if unit.strip() == "kB" and number.isdigit():
            yield name, int(number) * 1024


class ProcFS:
    """A mounted /proc.

    Parameters
    ----------
    root : Path
        Where it is mounted.
    """

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = str(root)

    def stat(self, pid: int) -> ProcessStat | None:
        """Look at one process; None if it is gone."""
        data = read_bytes(f"{self.root}/{pid}/stat")
        return None if data is None else parse_stat(data)

    def alive(self, mark: ProcessMark) -> bool:
        """Say whether exactly this process (not a later one with its pid) still runs."""
        stat = self.stat(mark.pid)
        return stat is not None and stat.start_ticks == mark.start_ticks and not stat.over

    def cpu_ticks(self, mark: ProcessMark) -> int | None:
        """Return what exactly this process, and children it has waited for, computed; None if it is gone."""
        data = read_bytes(f"{self.root}/{mark.pid}/stat")
        fields = [] if data is None else data.rpartition(b")")[2].split()
        try:
            return sum(map(int, fields[11:15])) if int(fields[19]) == mark.start_ticks else None
        except (IndexError, ValueError):
            return None

    def processes(self, known: Mapping[int, ProcessStat] | None = None) -> dict[int, ProcessStat]:
        """Look at every process that runs now, by pid; zombies are left out.

        Those that are in ``known`` and still there are not looked at again.
        """
        found = {}
        for entry in os.scandir(self.root):
            if entry.name.isdigit():
                pid = int(entry.name)
                stat = (known or {}).get(pid) or self.stat(pid)
                if stat is not None and not stat.over:
                    found[pid] = stat
        return found

    def threads(self, pid: int) -> list[int]:
        """List the thread ids of a process; empty if it is gone."""
        try:
            return sorted(int(entry.name) for entry in os.scandir(f"{self.root}/{pid}/task"))
        except OSError:
            return []

    def thread_start_ticks(self, pid: int, tid: int) -> int | None:
        """Return when a thread started, clock ticks since boot; None if it is gone."""
        data = read_bytes(f"{self.root}/{pid}/task/{tid}/stat")
        stat = None if data is None else parse_stat(data)
        return None if stat is None else stat.start_ticks

    def status(self, pid: int) -> ProcessStatus | None:
        """Read who a process is and how large; None if it is gone."""
        text = read_text(f"{self.root}/{pid}/status")
        if text is None:
            return None
        sizes = dict(_kib_fields(text))
        uid = next((int(line.split()[2]) for line in text.splitlines() if line.startswith("Uid:")), None)
        if uid is None or "VmData" not in sizes:
            return None
        return ProcessStatus(uid=uid, data_bytes=sizes["VmData"], resident_bytes=_resident(sizes))

    def proportional_bytes(self, pid: int) -> int | None:
        """Return anonymous and shared memory with shared pages divided among their users (PSS).

        None where it cannot be read (gone, or another user's). Costs about 15 ms a GiB: the kernel walks
        the page tables.
        """
        text = read_text(f"{self.root}/{pid}/smaps_rollup")
        sizes = {} if text is None else dict(_kib_fields(text))
        if "Pss_Anon" not in sizes:
            return None
        return sizes["Pss_Anon"] + sizes.get("Pss_Shmem", 0)

    def command(self, pid: int) -> list[str]:
        """Return the argument vector of a process; empty if it cannot be read."""
        data = read_bytes(f"{self.root}/{pid}/cmdline") or b""
        return [part.decode(errors="replace") for part in data.split(b"\0")[:-1]]

    def control_groups(self, pid: int | str) -> dict[str, str]:
        """Return the path of a process in each cgroup hierarchy: by controller in v1, by "" in v2."""
        paths: dict[str, str] = {}
        for line in (read_text(f"{self.root}/{pid}/cgroup") or "").splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            for controller in controllers.split(","):
                paths[controller] = path
        return paths

    def memory(self) -> dict[str, int]:
        """Return /proc/meminfo in bytes, by name; empty if it cannot be read."""
        return dict(_kib_fields(read_text(f"{self.root}/meminfo") or ""))

    def core_times(self) -> dict[int, tuple[int, int]]:
        """Return ``(busy, total)`` clock ticks since boot of each core."""
        times = {}
        for line in (read_text(f"{self.root}/stat") or "").splitlines():
            name, *fields = line.split()
            if name.startswith("cpu") and name[3:].isdigit():
                ticks = [int(field) for field in fields[:8]]
                idle = sum(ticks[3:5])  # idle and waiting for input or output
                times[int(name[3:])] = (sum(ticks) - idle, sum(ticks))
        return times


def _resident(sizes: dict[str, int]) -> int | None:
    """Sum what is in RAM and not a file: from its parts, else from the whole less the files."""
    if "RssAnon" in sizes:
        return sizes["RssAnon"] + sizes.get("RssShmem", 0)
    if "VmRSS" in sizes and "RssFile" in sizes:
        return sizes["VmRSS"] - sizes["RssFile"]
    return None
