"""A world with CUDA MPS in it: the fake control program, clients of it, and what they left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from jupyter_gpupool.backends.procfs import ProcFS

#: The program as it lies in the source tree.
PROGRAM = Path(__file__).resolve().parents[1] / "fakes" / "mps" / "nvidia-cuda-mps-control"
#: What a client process runs: it shows itself in the pipe directory and waits to be ended.
_CLIENT = """
import os, sys, pathlib
pipes, uid, devices = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if uid != os.getuid():
    os.setgroups([]); os.setuid(uid)
ticks = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
draft = pipes / "clients" / f".{os.getpid()}"
draft.write_text(f"start {ticks}\\nuid {uid}\\n" + "".join(f"device {each}\\n" for each in devices))
draft.replace(pipes / "clients" / str(os.getpid()))
sys.stdout.write("shown\\n"); sys.stdout.flush()
sys.stdin.read()
"""


class FakeClient:
    """A process with a CUDA context through MPS, or one that waits for it."""

    def __init__(self, pipes: Path, *devices: str, uid: int | None = None) -> None:
        user = os.getuid() if uid is None else uid
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", _CLIENT, str(pipes), str(user), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"shown\n"

    @property
    def pid(self) -> int:
        """Return its process."""
        return self.process.pid

    def end(self) -> None:
        """End it, and wait for that."""
        self.process.kill()
        self.process.communicate()


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
        self.program = directory / PROGRAM.name
        body = PROGRAM.read_text().partition("\n")[2]
        # This interpreter itself: whatever is named python3 on the path may take long to start.
        self.program.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{body}")
        self.program.chmod(0o755)
        shutil.copy(PROGRAM.with_name("fake_daemon.py"), directory)
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

    def client(self, pipes: Path, *devices: str, uid: int | None = None) -> FakeClient:
        """Start a client; it ends with this world at the latest."""
        self._clients.append(FakeClient(pipes, *devices, uid=uid))
        return self._clients[-1]

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
