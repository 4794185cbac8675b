"""A pool of many nodes on one machine: a service, an agent for each node, and holders with tickets.

Rules of this module: every node has a runtime, data and lock directory of its own, so that none knows of
another; whatever is started is ended, by its pid.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from _common import HERE, CouldNotMeasure, HttpConnection

#: How long a pool of many nodes may take for one step here, seconds.
STEP_SECONDS = 180.0
#: Pause between two looks, seconds.
LOOK_SECONDS = 0.05


@dataclass
class Node:
    """One node: its agent, and the holders on it."""

    name: str
    environment: dict[str, str]
    log: Path
    agent: subprocess.Popen[bytes] | None = None

    def end(self) -> None:
        """End the agent with kill -9."""
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait(30)


@dataclass
class Holder:
    """A process that holds a lease."""

    lease_id: str
    node_id: str
    process: asyncio.subprocess.Process


class Pool:
    """The pool, as a client sees it, and everything that is in it.

    Parameters
    ----------
    environment : dict
        A world (`_common.world`).
    count : int
        How many nodes.
    emulate : str
        Devices of each.
    grace_seconds : float
        `PoolService.agent_grace_seconds`.
    """

    def __init__(
        self, environment: dict[str, str], count: int, emulate: str, grace_seconds: float = 15.0
    ) -> None:
        self.grace_seconds = grace_seconds
        self._environment = environment
        self.home = Path(environment["JUPYTER_GPUPOOL_DATA_DIR"]).parent
        self._runtime = Path(environment["JUPYTER_GPUPOOL_RUNTIME_DIR"])
        self._emulate = emulate
        self.nodes = [self._node(f"n{number}") for number in range(count)]
        self.holders: dict[str, Holder] = {}
        self._service: subprocess.Popen[bytes] | None = None
        self._connections: list[HttpConnection] = []
        self._spawning = asyncio.Semaphore(8)

    def _node(self, name: str) -> Node:
        directory = self.home / name
        directory.mkdir(parents=True)
        own = {
            f"JUPYTER_GPUPOOL_{part}_DIR": str(directory / part.lower())
            for part in ("RUNTIME", "DATA", "LOCK")
        }
        return Node(name, {**self._environment, **own}, directory / "agent.log")

    def serve(self) -> None:
        """Start the service, again after `kill_service`."""
        command = [
            "serve",
            "--listen",
            "127.0.0.1",
            "--PoolService.listen_port=0",
            "--PoolService.control_port=0",
        ]
        command += [
            "--PoolService.start_agent=False",
            f"--PoolService.agent_grace_seconds={self.grace_seconds}",
        ]
        self._service = self._start(command, self._environment, "serve.log")

    def kill_service(self) -> None:
        """End the service with kill -9."""
        if self._service is not None:
            self._service.kill()
            self._service.wait(30)

    def stop_service(self) -> None:
        """End the service as a service manager does."""
        if self._service is not None:
            self._service.terminate()
            self._service.wait(60)

    def join(self) -> None:
        """Start the agents of all nodes; each joins with a token."""
        token = self._token()
        for node in self.nodes:
            self.start_agent(node, token)

    def start_agent(self, node: Node, token: str = "") -> None:
        """Start the agent of a node."""
        arguments = ["agent", self._address, "--node", node.name, "--emulate", self._emulate, "--port", "0"]
        if token:
            file = node.log.with_name("token")
            file.write_text(token)
            arguments += ["--join-token-file", str(file)]
        node.agent = self._start(arguments, node.environment, str(node.log))

    @property
    def _address(self) -> str:
        log = self.home / "serve.log"
        for line in log.read_text(errors="replace").splitlines():
            for word in line.split():
                if word.startswith("https://"):
                    return word.rstrip(".,;")
        raise CouldNotMeasure(f"the service does not say where it is: {log.read_text()[-1000:]}")

    def _token(self) -> str:
        command = [
            sys.executable,
            "-m",
            "jupyter_gpupool",
            "token",
            "create",
            "--join",
            "--uses",
            str(len(self.nodes)),
        ]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise CouldNotMeasure(f"there is no join token: {done.stderr}")
        return done.stdout.strip()

    def _start(self, arguments: list[str], environment: dict[str, str], log: str) -> subprocess.Popen[bytes]:
        with (self.home / log).open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "jupyter_gpupool", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    # --- as a client ----------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the service; None while it does not answer."""
        try:
            described = json.loads((self._runtime / "pool.json").read_bytes())
            token = (self._runtime / "token").read_text().strip()
        except (OSError, ValueError):
            return None
        connection = HttpConnection(urlsplit(described["url"]).port or 0)
        headers = f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        data = b"" if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(30):
                status, answer = await connection.ask(method, path, headers, data)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return None
        finally:
            connection.close()
        if status >= 500:
            return None
        if status >= 400:
            raise CouldNotMeasure(f"{method} {path} was answered with {status}: {answer[:300].decode()}")
        return json.loads(answer)

    async def until(
        self, look: Callable[[], Awaitable[Any]], what: str, seconds: float = STEP_SECONDS
    ) -> float:
        """Look until something is true; returns how long it took, seconds."""
        began = time.monotonic()
        while not await look():
            if time.monotonic() - began > seconds:
                raise CouldNotMeasure(f"{what}: not within {seconds:.0f} s.")
            await asyncio.sleep(LOOK_SECONDS)
        return time.monotonic() - began

    async def connected(self) -> set[str]:
        """Return the names of the nodes that are connected."""
        nodes = await self.ask("GET", "/api/v1/nodes") or []
        return {node["hostname"] for node in nodes if node["connected"]}

    async def devices(self) -> dict[str, str]:
        """Return the name of the emulated device of each node, by the node's name."""
        nodes = {node["id"]: node["hostname"] for node in await self.ask("GET", "/api/v1/nodes") or []}
        found = await self.ask("GET", "/api/v1/devices") or []
        return {nodes[it["node_id"]]: it["id"] for it in found if it["kind"] == "cuda"}

    async def leases(self) -> dict[str, Any]:
        """Return all leases, by id; empty while the service does not answer."""
        return {lease["id"]: lease for lease in await self.ask("GET", "/api/v1/leases") or []}

    async def request(self, compute_milli: int, device: str = "") -> Any:
        """Ask for a share of a GPU; waits for the service, not for the share."""
        holder = {"key": uuid.uuid4().hex}
        body = {"compute_milli": compute_milli, "kind": "cuda", "device": device, "holder": holder}
        answer: list[Any] = []

        async def asked() -> bool:
            got = await self.ask("POST", "/api/v1/leases", body)
            answer.extend([got] if got else [])
            return bool(answer)

        await self.until(asked, "a request")
        return answer[0]

    async def hold(self, lease_id: str) -> Holder:
        """Wait until a lease is granted, and start a process that shows its ticket."""
        lease = {"state": "unknown", "reason": "the service did not answer", "tag": "", "attach": None}

        async def there() -> bool:
            """Listen: a request that nobody listens for is taken out of the queue."""
            query = f"?since={lease['tag']}&wait_seconds=10" if lease["tag"] else ""
            lease.update(await self.ask("GET", f"/api/v1/leases/{lease_id}{query}") or {})
            return bool(lease["attach"] or lease["state"] == "ended")

        try:
            await self.until(there, "a grant", 120.0)
        except CouldNotMeasure as error:
            raise CouldNotMeasure(f"{error} It is {lease['state']}: {lease['reason']}") from None
        if not lease["attach"]:
            raise CouldNotMeasure(f"a request was not granted: {lease['reason']}")
        return await self._attach(lease)

    async def _attach(self, lease: Any) -> Holder:
        async with self._spawning:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(HERE / "_holder.py")),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            holder = Holder(lease["id"], lease["node_id"], process)
            self.holders[lease["id"]] = holder
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(lease["attach"]).encode() + b"\n")
            async with asyncio.timeout(60):
                reply = json.loads(await process.stdout.readline() or b"{}")
        if reply.get("error") or "lease_id" not in reply:
            raise CouldNotMeasure(f"a holder was not attached: {reply}")
        return holder

    def kill_holders(self, lease_ids: Iterable[str]) -> None:
        """End holders with kill -9."""
        for lease_id in lease_ids:
            with contextlib.suppress(ProcessLookupError):
                self.holders[lease_id].process.kill()

    async def close(self) -> None:
        """End everything that was started."""
        for node in self.nodes:
            node.end()
        self.kill_holders(self.holders)
        for holder in list(self.holders.values()):
            await holder.process.wait()
        if self._service is not None and self._service.poll() is None:
            self.stop_service()

    # --- what is left -----------------------------------------------------------------------------

    def journal_faults(self) -> list[str]:
        """Replay the journal; return everything that is not as it must be."""
        (path,) = (self.home / "data").rglob("journal.sqlite3")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            steps = database.execute(
                'SELECT lease_id, "before", "after" FROM transitions ORDER BY rowid'
            ).fetchall()
            rows = database.execute("SELECT id, state, row FROM leases").fetchall()
        return [*_broken_steps(steps, {key: state for key, state, _ in rows}), *_over_committed(rows)]


def _broken_steps(steps: list[tuple[str, str | None, str]], states: dict[str, str]) -> list[str]:
    """Follow every lease from nothing to its state now: each step begins where the last one ended."""
    at: dict[str, str | None] = {}
    faults = []
    for lease_id, before, after in steps:
        if at.get(lease_id) != before:
            faults.append(f"{lease_id}: {before} -> {after}, but it was {at.get(lease_id)}")
        if at.get(lease_id) == "ended":
            faults.append(f"{lease_id}: something happened after its end")
        at[lease_id] = after
    faults += [
        f"{key}: is {state}, its steps end in {at.get(key)}"
        for key, state in states.items()
        if at.get(key) != state
    ]
    return faults


def _over_committed(rows: list[tuple[str, str, bytes]]) -> list[str]:
    """Find devices of which more is granted than there is."""
    used: Counter[str] = Counter()
    for _, state, row in rows:
        if state in {"attaching", "active", "ending"}:
            for share in json.loads(row)["shares"]:
                used[share["device_id"]] += share["compute_milli"]
    return [f"{device}: {milli} thousandths are granted" for device, milli in used.items() if milli > 1000]


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes, shared parts counted in proportion."""
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
    return total


def signal_agent(node: Node, number: signal.Signals) -> None:
    """Signal the agent of a node."""
    if node.agent is not None:
        os.kill(node.agent.pid, number)
