"""A world with CUDA MPS in it: the fake control program, clients of it, and what they left behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS
from tests.support.compiled import cache

SOURCES = Path(__file__).resolve().parents[1] / "fakes" / "mps"
PROGRAM = "nvidia-cuda-mps-control"
#: What a client process runs: for each line (a pipe directory, then devices) it shows itself there.
_CLIENT = """
import os, sys
uid = int(sys.argv[1])
if uid != os.getuid():
    os.setgroups([]); os.setuid(uid)
ticks = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
sys.stdout.write("ready\\n"); sys.stdout.flush()
for line in sys.stdin:
    pipes, *devices = line.split()
    draft = f"{pipes}/clients/.{os.getpid()}"
    with open(draft, "w") as file:
        file.write(f"start {ticks}\\nuid {uid}\\n" + "".join(f"device {each}\\n" for each in devices))
    os.rename(draft, f"{pipes}/clients/{os.getpid()}")
    sys.stdout.write("shown\\n"); sys.stdout.flush()
"""


class FakeClient:
    """A process that can have a CUDA context through MPS, or wait for one; with a child if so wanted."""

    def __init__(self, *, uid: int | None = None, parent: bool = False) -> None:
        self.uid = os.getuid() if uid is None else uid
        command = [sys.executable, "-IS", "-c", _CLIENT, str(self.uid)]
        # the parent's child is the one that uses CUDA
        command = ["sh", "-c", '"$@"; :', "sh", *command] if parent else command
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._expect(b"ready\n")

    @property
    def pid(self) -> int:
        """Return its process."""
        return self.process.pid

    @property
    def child(self) -> int:
        """Return the process that uses CUDA for it."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def mark(self, pid: int = 0) -> ProcessMark:
        """Return its process's name for life, or its child's."""
        stat = ProcFS().stat(pid or self.pid)
        assert stat is not None
        return stat.mark

    def connect(self, pipes: Path | str, *devices: str) -> None:
        """Start CUDA in it; whether it is served is the daemon's to say."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([str(pipes), *devices]).encode() + b"\n")
        self.process.stdin.flush()
        self._expect(b"shown\n")

    def end(self) -> None:
        """End it, and wait for that."""
        self.process.kill()
        self.process.communicate()

    def _expect(self, line: bytes) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == line


class FakeMPS:
    """The fake control program in a directory of its own; a context manager that leaves no process.

    Parameters
    ----------
    directory : Path
        Where it is put; its log and the ids of its processes lie beside it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.program = directory / PROGRAM
        shutil.copy(_compiled(), self.program)
        daemon = directory / "fake_daemon.py"
        # This interpreter itself: whatever is named python3 on the path may take long to start.
        interpreter = os.path.realpath(sys.executable)
        daemon.write_text(f"#!{interpreter} -IS\n{(SOURCES / daemon.name).read_text()}")
        daemon.chmod(0o755)
        self._clients: list[FakeClient] = []

    def __enter__(self) -> FakeMPS:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def environment(self, pipes: Path | None = None) -> dict[str, str]:
        """Return this process's environment with the program on the path, and a pipe directory if given."""
        found = {**os.environ, "PATH": f"{self.directory}{os.pathsep}{os.environ.get('PATH', '')}"}
        if pipes is not None:
            found |= {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(pipes / "log")}
        return found

    def behave(self, *lines: str) -> None:
        """Let the program misbehave from now on: ``hang get_server_list``, ``garbage``; nothing for well."""
        (self.directory / "behaviour").write_text("".join(f"{line}\n" for line in lines))

    def calls(self) -> list[str]:
        """Return every command it was given so far, without the pipe directories."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.directory / "calls.log").read_text().splitlines()
            return [line.partition(" ")[2] for line in lines]
        return []

    def start_daemon(self, pipes: Path, *options: str) -> None:
        """Start a daemon as an administrator does."""
        subprocess.run([self.program, "-d", *options], env=self.environment(pipes), check=True, timeout=20)

    def tell(self, pipes: Path, command: str) -> str:
        """Send a command to a daemon and return its answer."""
        done = subprocess.run(
            [self.program],
            env=self.environment(pipes),
            input=f"{command}\n",
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return done.stdout.strip()

    def process(self, *, uid: int | None = None, parent: bool = False) -> FakeClient:
        """Start a process without CUDA; it ends with this world at the latest."""
        self._clients.append(FakeClient(uid=uid, parent=parent))
        return self._clients[-1]

    def client(self, pipes: Path, *devices: str, uid: int | None = None) -> FakeClient:
        """Start a process with CUDA through the daemon in a pipe directory, or waiting for it."""
        client = self.process(uid=uid)
        client.connect(pipes, *devices)
        return client

    def processes(self) -> list[int]:
        """Return the daemons and servers that live."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in (self.directory / "processes").read_text().splitlines():
                pid, ticks = (int(word) for word in line.split())
                stat = ProcFS().stat(pid)
                if stat is not None and stat.start_ticks == ticks and not stat.over:
                    found.append(pid)
        return found

    def end(self) -> None:
        """End every client, daemon and server that lives."""
        for client in self._clients:
            client.end()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _compiled() -> Path:
    """Return the control program, compiled when its source is new; skips where there is no compiler."""
    source = SOURCES / f"{PROGRAM}.c"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        assert not os.environ.get("CI"), "there is no C compiler for the fake drivers; install gcc, libc6-dev"
        pytest.skip("no C compiler is here to build the fake control program of MPS")
    program = cache() / f"{PROGRAM}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        draft = program.with_suffix(f".{os.getpid()}")
        flags = (
            "-O1",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-format-truncation",
        )
        subprocess.run([compiler, *flags, "-o", draft, source], check=True, timeout=60)
        draft.rename(program)  # whole or not at all
    return program
