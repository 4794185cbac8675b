"""A real pool service as a child process, for tests.

Rules of this module: every wait is bounded; whatever a test started is ended, by the pids that it wrote down
itself, never by name.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.embedded import lives, read_runtime_file
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.paths import owner_token

T = TypeVar("T")

#: How long a service may take to start or end on a busy machine, seconds.
PATIENCE_SECONDS = 30.0


def wait_for(look: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Look again and again until there is something (neither None nor False), and return it."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.02)


def world(home: Path) -> dict[str, str]:
    """Return the environment of a world of its own below ``home``, as the fixtures make it for each test."""
    return {
        **os.environ,
        names.ENV_RUNTIME_DIR: str(home / "run"),
        names.ENV_DATA_DIR: str(home / "data"),
        names.ENV_LOCK_DIR: str(home / "lock"),
    }


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: Any


class PoolProcess:
    """One pool service, with the agent that it starts, in a world of its own on disk.

    Parameters
    ----------
    environment : mapping of str to str, optional
        Environment of the service; by default this process's, which the fixtures have isolated.
    emulate : str
        Emulated devices; empty for the real CPU.
    embedded : bool
        Whether it is a user's own pool.
    arguments : sequence of str
        Further arguments of ``serve``, such as ``--PoolService.sweep_seconds=0.5``.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        emulate: str = "",
        embedded: bool = False,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.environment = dict(os.environ if environment is None else environment)
        self.runtime = Path(self.environment[names.ENV_RUNTIME_DIR])
        self.arguments = [*arguments]
        if emulate:
            self.arguments += ["--emulate", emulate]
        if embedded:
            self.arguments.append("--embedded")
        self.process: subprocess.Popen[bytes] | None = None
        self._log = self.runtime.with_name(f"{self.runtime.name}-service.log")
        self._agents: set[tuple[int, int]] = set()
        self._http = urllib3.PoolManager(num_pools=1, maxsize=1, retries=False)

    # --- the process ----------------------------------------------------------------------------

    def start(self, *, wait: bool = True) -> PoolProcess:
        """Start the service, and wait until it answers and its agent has joined."""
        self.runtime.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_gpupool", "serve", *self.arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            wait_for(self._answers, f"the service to answer; its log:\n{self.log_tail()}")
            self.wait_joined()
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the service ended ({self.process.returncode}):\n{self.log()}"
        file = self.file
        return file is not None and file.pid == self.process.pid and self.get("/health").status == 200

    def wait_joined(self) -> None:
        """Wait until an agent is connected and its devices are offered."""

        def joined() -> bool:
            devices = self.get("/api/v1/devices").body
            return bool(devices) and all(device["offered"] or device["withheld"] for device in devices)

        def connected() -> bool:
            return any(node["connected"] for node in self.get("/api/v1/nodes").body) and joined()

        wait_for(connected, "the agent to join")
        self._note_agent()

    @property
    def file(self) -> RuntimeFile | None:
        """The runtime file; None when there is none."""
        return read_runtime_file(self.runtime)

    @property
    def pid(self) -> int:
        """Process id of the service."""
        assert self.process is not None
        return self.process.pid

    @property
    def agent_pid(self) -> int | None:
        """Process id of the agent that has signed the agent's lock; None when none lives."""
        try:
            mark = json.loads((self.runtime / names.AGENT_LOCK).read_bytes())
        except (OSError, ValueError):
            return None
        return mark["pid"] if _start_ticks(mark["pid"]) == mark["start_ticks"] else None

    def _note_agent(self) -> None:
        pid = self.agent_pid
        ticks = _start_ticks(pid) if pid else None
        if pid and ticks:
            self._agents.add((pid, ticks))

    def kill(self) -> None:
        """Kill the service without warning; its agent lives on."""
        self._note_agent()
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def stop(self) -> int:
        """End the service as a service manager does, and return its exit status."""
        self._note_agent()
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)

    def restart(self) -> None:
        """Start a service anew, after `kill` or `stop`."""
        self.start()

    def kill_agent(self) -> None:
        """Kill the agent without warning."""
        pid = self.agent_pid
        assert pid is not None, "no agent lives"
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: _start_ticks(pid) is None, "the agent to be gone")

    def log(self) -> str:
        """Return what the service has logged."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_tail(self) -> str:
        """Return the end of that."""
        return self.log()[-3000:]

    def cleanup(self) -> None:
        """End the service and every agent that was seen, and wait for that."""
        self._http.clear()
        self._note_agent()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        file = self.file  # one that a client started again
        if file is not None and lives(file):
            os.kill(file.pid, signal.SIGKILL)
        self._note_agent()
        for pid, ticks in self._agents:
            if _start_ticks(pid) == ticks:
                os.kill(pid, signal.SIGKILL)

    # --- talking to it --------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """The owner's token."""
        return owner_token(self.runtime)

    @property
    def url(self) -> str:
        """Where the service is."""
        file = self.file
        assert file is not None, f"there is no runtime file in {self.runtime}"
        return file.url

    @property
    def http(self) -> urllib3.PoolManager:
        """What sends requests, for what `ask` cannot say."""
        return self._http

    @property
    def client(self) -> PoolClient:
        """A new client of it."""
        return PoolClient(Connection(url=self.url, token=self.token))

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = PATIENCE_SECONDS,
    ) -> Answer:
        """Send one raw request; an empty ``token`` sends none."""
        sent = dict(headers or {})
        bearer = self.token if token is None else token
        if bearer:
            sent["Authorization"] = f"Bearer {bearer}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            answer = self._http.request(method, self.url + path, body=data, headers=sent, timeout=timeout)
        except urllib3.exceptions.HTTPError as error:
            return Answer(0, {}, str(error))
        return Answer(answer.status, answer.headers, _json(answer.data))

    def get(self, path: str, **options: Any) -> Answer:
        """Send one GET."""
        return self.ask("GET", path, **options)

    def request(self, compute_milli: int = 250, **fields: Any) -> Any:
        """Ask for a lease and return its document; it must be taken."""
        answer = self.ask("POST", "/api/v1/leases", {"compute_milli": compute_milli, **fields})
        assert answer.status == 201, answer
        return answer.body

    def lease(self, lease_id: str) -> Any:
        """Read a lease."""
        answer = self.get(f"/api/v1/leases/{lease_id}")
        assert answer.status == 200, answer
        return answer.body

    def wait_state(self, lease_id: str, state: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until a lease is in a state, and return its document."""

        def there() -> Any:
            doc = self.lease(lease_id)
            return doc if doc["state"] == state else None

        return wait_for(there, f"lease {lease_id} to be {state}", seconds)

    def release(self, lease_id: str) -> Any:
        """End a lease, and return its document."""
        answer = self.ask("DELETE", f"/api/v1/leases/{lease_id}")
        assert answer.status in (200, 202), answer
        return answer.body


@contextmanager
def running_pool(
    environment: Mapping[str, str] | None = None,
    *,
    emulate: str = "",
    embedded: bool = False,
    arguments: tuple[str, ...] = (),
) -> Iterator[PoolProcess]:
    """Run a pool service for the length of a ``with`` block."""
    pool = PoolProcess(environment, emulate=emulate, embedded=embedded, arguments=arguments)
    try:
        yield pool.start()
    finally:
        pool.cleanup()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
