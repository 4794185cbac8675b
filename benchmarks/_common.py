"""What the benchmarks share: a world of their own on disk, processes in it, percentiles, and the report.

Rules of this module: nothing of the person's own pool is touched; every wait is bounded; what could not be
measured is said and makes the script fail, and is never a figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Longest wait for a process to be ready, seconds.
READY_SECONDS = 40.0


class CouldNotMeasure(Exception):
    """Raised when a figure cannot be had here. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of a report.

    Attributes
    ----------
    name : str
        What was measured.
    value : float
        The figure.
    unit : str
        Its unit; "x" for a ratio.
    goal : str
        "< 20" or "> 500"; empty where there is none (a physical limit, a peer).
    listed : bool
        False where a table of its own shows it; it is written as JSON all the same.
    """

    name: str
    value: float
    unit: str
    goal: str = ""
    listed: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if not self.goal:
            return None
        sign, limit = self.goal.split()
        return self.value < float(limit) if sign == "<" else self.value > float(limit)


@dataclass
class Report:
    """The figures of one benchmark."""

    title: str
    quick: bool
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, goal: str = "", *, listed: bool = True) -> None:
        """Add one figure."""
        self.figures.append(Figure(name=name, value=value, unit=unit, goal=goal, listed=listed))

    def ratio(self, name: str, above: float, below: float, goal: str = "") -> None:
        """Add the ratio of two figures, so that machines can be compared."""
        if below <= 0:
            raise CouldNotMeasure(f"{name}: the figure to compare with is {below}.")
        self.add(name, above / below, "x", goal)

    def show(self) -> None:
        """Print the table."""
        listed = [figure for figure in self.figures if figure.listed]
        width = max(len(figure.name) for figure in listed)
        print(f"\n{self.title}{' (quick: too few samples to quote)' if self.quick else ''}")
        for line in self.table:
            print(f"  {line}")
        print(f"  {'':{width}}  {'measured':>12}  {'goal':>10}")
        for figure in listed:
            verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
            shown = f"{figure.value:,.3g}" if abs(figure.value) < 100 else f"{figure.value:,.0f}"
            line = f"  {figure.name:{width}}  {shown:>7} {figure.unit:<4}  {figure.goal:>10}  {verdict}"
            print(line.rstrip())
        for note in self.notes:
            print(f"  {note}")

    def write(self, path: Path) -> None:
        """Write everything, with the machine it was measured on, as JSON."""
        document = {
            "title": self.title,
            "quick": self.quick,
            "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "figures": [{**asdict(figure), "met": figure.met} for figure in self.figures],
            "notes": self.notes,
        }
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def machine() -> dict[str, object]:
    """Describe the machine, so that figures are not compared across machines by accident."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": model,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def run_benchmark(title: str, measure: Callable[[Report], None], argv: Sequence[str] | None = None) -> int:
    """Parse the options, measure, print and write; the exit status is 1 when it could not be measured."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="few samples: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(argv)
    report = Report(title=title, quick=options.quick)
    try:
        measure(report)
    except CouldNotMeasure as error:
        print(f"Could not measure: {error}", file=sys.stderr)
        return 1
    busy = os.getloadavg()[0]
    if busy > 2 * len(os.sched_getaffinity(0)):
        report.notes.append(f"The machine was busy (load {busy:.1f}): take this as an upper bound.")
    report.show()
    if options.json:
        report.write(options.json)
    return 0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which ``percent`` % of the values lie (nearest rank)."""
    if not values:
        raise CouldNotMeasure("there is not one sample.")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, which the scheduler counts in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    except OSError as error:
        raise CouldNotMeasure(f"process {pid} ended, or this kernel counts no CPU time ({error}).") from error


def poll(look: Callable[[], object], what: str, seconds: float = READY_SECONDS) -> None:
    """Wait until ``look`` returns something true."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise CouldNotMeasure(f"{what} did not happen within {seconds:.0f} s.")
        time.sleep(0.01)


@contextmanager
def world() -> Iterator[dict[str, str]]:
    """Make a world of its own on disk; yields the environment for processes in it, and ends its pool.

    It lies under /var/tmp, which is on a disk where /tmp may be memory.
    """
    directory = Path(tempfile.mkdtemp(prefix="gpupool-bench-", dir="/var/tmp"))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_GPUPOOL")
    }
    environment |= {
        "JUPYTER_GPUPOOL_RUNTIME_DIR": str(directory / "run"),
        "JUPYTER_GPUPOOL_DATA_DIR": str(directory / "data"),
        "JUPYTER_GPUPOOL_LOCK_DIR": str(directory / "lock"),
        "IPYTHONDIR": str(directory / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(directory / "jupyter"),
    }
    try:
        yield environment
    finally:
        stop = [sys.executable, "-m", "jupyter_gpupool", "stop"]
        subprocess.run(stop, env=environment, capture_output=True, timeout=60, check=False)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def process(command: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for a while; what it wrote is shown if it died by itself."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield child
        finally:
            died = child.poll()
            if died is None:
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait(10)
            elif died != 0:
                output.seek(0)
                print(output.read()[-4000:].decode(errors="replace"), file=sys.stderr)


@contextmanager
def serving(environment: dict[str, str], *arguments: str) -> Iterator[tuple[str, str, int]]:
    """Run a pool service in a world; yields its URL, its owner's token and its pid."""
    runtime = Path(environment["JUPYTER_GPUPOOL_RUNTIME_DIR"])
    command = [sys.executable, "-m", "jupyter_gpupool", "serve", *arguments]
    with process(command, environment) as child:
        poll(lambda: (runtime / "pool.json").exists() or child.poll() is not None, "a running pool service")
        if child.poll() is not None:
            raise CouldNotMeasure(f"the pool service ended with status {child.returncode}.")
        described = json.loads((runtime / "pool.json").read_bytes())
        yield described["url"], (runtime / "token").read_text().strip(), described["pid"]


@contextmanager
def peer_server(environment: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Run the empty peers (see _peer_server.py); yields the HTTP port and the path of the unix socket."""
    with tempfile.TemporaryDirectory(prefix="gpupool-peer-") as directory:
        socket_path = f"{directory}/echo.sock"
        port_file = Path(directory) / "port"
        command = [sys.executable, str(HERE / "_peer_server.py"), socket_path, str(port_file)]
        with process(command, environment):
            poll(port_file.exists, "a running peer server")
            yield int(port_file.read_text()), socket_path


class HttpConnection:
    """One kept HTTP/1.1 connection that costs the load generator as little as possible."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, headers: str = "", body: bytes = b"") -> tuple[int, bytes]:
        """Send one request; returns status and body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = answer.partition("content-length:")[2].split(maxsplit=1)
        content = await reader.readexactly(int(length[0])) if length else b""
        return int(answer.split(maxsplit=2)[1]), content

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


def disk_of(path: str) -> str:
    """Return the type of the file system that a path lies on."""
    best, kind = "", "unknown"
    for line in _lines("/proc/mounts"):
        _, mount, kind_here, *_ = line.split()
        if path.startswith(mount.rstrip("/") + "/") and len(mount) > len(best):
            best, kind = mount, kind_here
    return kind
