"""One pool of two nodes on one machine: the agent that the service starts, and another.

Rule of this module: both agents are real processes; what was started is ended, by the pids written down.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jupyter_gpupool
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.names import API_PREFIX
from tests.support.pool_process import PATIENCE_SECONDS, PoolProcess, running_pool, wait_for, world

ROOT = Path(jupyter_gpupool.__file__).parents[1]
#: What joins a lease: it says who it is, under which lease, and ends with the status that it is told.
PROGRAM = (
    "import os, sys; print(os.getpid(), os.environ.get('JUPYTER_GPUPOOL_LEASE', '-'), flush=True);"
    " sys.exit(int(sys.stdin.readline() or 0))"
)


class Runner:
    """A command under ``jupyter gpupool run``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def started(self) -> tuple[int, str]:
        """Wait until the command runs, and return its process id and lease."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=PATIENCE_SECONDS)[1]
        pid, lease_id = line.split()
        return int(pid), lease_id

    def end(self, status: int = 0) -> int:
        """Let the command end with a status, and return what came of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{status}\n")
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)


class TwoNodes:
    """The pool, and its second node."""

    def __init__(self, pool: PoolProcess, home: Path) -> None:
        self.pool = pool
        self._runtime = home / "n2"
        self._agent: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[str]] = []

    def start_second(self) -> None:
        """Start the second agent, and wait until the devices of both are offered."""
        if not self._runtime.exists():
            self._runtime.mkdir(mode=0o700)
            shutil.copytree(self.pool.runtime / names.TLS_DIR, self._runtime / names.TLS_DIR)
            (self._runtime / names.POOL_FILE).symlink_to(self.pool.runtime / names.POOL_FILE)
        fields = {"runtime": str(self._runtime), "emulate": "1xA100-80GB", "node_name": "n2"}
        fields |= {"sample_seconds": 0.2}  # type: ignore[dict-item]
        with (self._runtime / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "tests.support.agent_process", json.dumps(fields)],
                cwd=ROOT,
                env=self.pool.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_joined()

    def wait_joined(self) -> None:
        """Wait until the devices of both nodes are offered."""
        wait_for(lambda: self._offered() == 2, f"both nodes to join; the agent said:\n{self.agent_log()}")

    def _offered(self) -> int:
        devices = self.pool.get(f"{API_PREFIX}/devices").body
        return sum(it["offered"] for it in devices) if isinstance(devices, list) else 0

    def agent_log(self) -> str:
        """Return what the second agent has said."""
        path = self._runtime / "agent.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def kill_second(self) -> None:
        """Kill the second agent without warning."""
        assert self._agent is not None
        self._agent.kill()
        self._agent.wait(PATIENCE_SECONDS)

    def gang(self) -> Any:
        """Ask for the devices of both nodes, and return the lease."""
        return self.pool.request(1000, count=2, spread=True)

    def run(self, lease_id: str, node: str, *, program: str = PROGRAM) -> Runner:
        """Start a command under what a lease has on a node."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_gpupool", "run", "--lease", lease_id, "--node", node),
                *("--", sys.executable, "-c", program),
            ],
            env={**self.pool.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return Runner(process)

    def parts(self, lease_id: str) -> list[Any]:
        """Return what a lease has on each of its nodes."""
        return list(self.pool.lease(lease_id)["parts"])

    def joined(self, lease_id: str) -> list[int | None]:
        """Return the processes that have joined it, by node; None for none."""
        return [it["pid"] if it["joined"] else None for it in self.parts(lease_id)]

    def wait_joined_by(self, lease_id: str, *pids: int | None) -> None:
        """Wait until these processes have joined a lease."""
        wait_for(lambda: self.joined(lease_id) == [*pids], f"{pids} to have joined")

    def records(self) -> list[Path]:
        """List what the agents have on disk of holders."""
        return [
            *(self.pool.runtime / names.HOLDERS_DIR).glob("*"),
            *(self._runtime / names.HOLDERS_DIR).glob("*"),
        ]

    def close(self) -> None:
        """End everything that was started."""
        for process in self._started:
            with process:
                process.kill()
        if self._agent is not None and self._agent.poll() is None:
            self.kill_second()


@contextmanager
def two_nodes(home: Path, *arguments: str) -> Iterator[TwoNodes]:
    """Run a pool of two nodes for the length of a ``with`` block."""
    with running_pool(world(home), emulate="1xA100-80GB", arguments=arguments) as pool:
        nodes = TwoNodes(pool, home)
        try:
            nodes.start_second()
            yield nodes
        finally:
            nodes.close()


def name_of_first() -> str:
    """Return what the node of the service's own agent is called."""
    return os.uname().nodename
