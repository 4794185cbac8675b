"""A node under test: a real control plane here, an agent and holders in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jupyter_gpupool
from jupyter_gpupool.cluster.control import ControlPlane
from jupyter_gpupool.cluster.tls import ensure_control_tls
from jupyter_gpupool.protocol import codec, names, paths
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.messages import AttachReply, HelloReport, PrepareOrder, Report, ShareOrder
from tests.support.waiting import until

HOLDER = Path(__file__).with_name("holder_process.py")
ROOT = Path(jupyter_gpupool.__file__).parents[1]

#: Memory of a share unless a test says otherwise.
MEMORY_BYTES = 2**30


class HolderProcess:
    """One holder."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, do: str, **fields: Any) -> Any:
        """Give it a command and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        async with asyncio.timeout(20):
            return json.loads(await self.process.stdout.readline())

    async def attach(self, path: Path, ticket: str, **fields: Any) -> AttachReply:
        """Show a ticket."""
        answer = await self.ask("attach", path=os.fspath(path), ticket=ticket, **fields)
        return codec.decode(json.dumps(answer), AttachReply)

    async def kill(self) -> None:
        """End it with kill -9."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class NodeBench:
    """The pool service's side of one runtime directory, with everything it was told."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        #: The lease that holders get unless a test says otherwise; control groups are named after it, and
        #: they are machine-wide, so no two tests may have the same.
        self.lease_id = f"lease_{uuid.uuid4().hex}"
        self.reports: list[Report] = []
        self.left: list[str] = []
        self.control: ControlPlane | None = None
        self._stack = contextlib.AsyncExitStack()

    async def serve(self, *, publish: bool = True) -> ControlPlane:
        """Start a control plane and tell agents of it, as a service does."""
        self.control = ControlPlane(
            tls=ensure_control_tls(self.runtime / names.TLS_DIR),
            on_reports=self._on_reports,
            on_left=self._on_left,
        )
        address = await self.control.start()
        if publish:
            self.publish(address)
        return self.control

    def publish(self, address: str) -> None:
        """Write ``pool.json``."""
        file = RuntimeFile(
            format=names.FORMAT,
            api=names.API_MAJOR,
            version="test",
            url="http://127.0.0.1:1",
            pid=os.getpid(),
            pid_start=0,
            owner="test",
            embedded=True,
            control=address,
        )
        beside = self.runtime / "pool.json.new"
        beside.write_bytes(codec.encode(file))
        beside.replace(self.runtime / names.POOL_FILE)

    async def stop_serving(self) -> None:
        """Close the control plane."""
        if self.control is not None:
            control, self.control = self.control, None
            await control.close()

    async def agent(self, *, wrap: tuple[str, ...] = (), **settings: Any) -> asyncio.subprocess.Process:
        """Start an agent and wait until it has joined, if there is a control plane."""
        fields = {"runtime": os.fspath(self.runtime), "sample_seconds": 0.2, **settings}
        log = await asyncio.to_thread((self.runtime / "agent.log").open, "ab")
        with log:
            process = await asyncio.create_subprocess_exec(
                *wrap,
                *(sys.executable, "-W", "error", "-m", "tests.support.agent_process", json.dumps(fields)),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.push_async_callback(_end, process)
        if self.control is not None:
            await until(lambda: self.control and self.control.connected, what="the agent joins")
        else:
            await until(self.socket.exists, what="the agent listens")
        return process

    async def holder(self) -> HolderProcess:
        """Start a holder."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", os.fspath(HOLDER)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        holder = HolderProcess(process)
        self._stack.push_async_callback(holder.kill)
        return holder

    async def prepare(self, lease_id: str = "", *, generation: int = 1, **share: Any) -> str:
        """Let the agent expect a holder of a quarter of the first device; returns the ticket."""
        ticket = secrets.token_urlsafe(32)
        order = PrepareOrder(
            lease_id=lease_id or self.lease_id,
            generation=generation,
            owner="test",
            ticket_sha256=hashlib.sha256(ticket.encode()).hexdigest(),
            expires_seconds=60.0,
            shares=[self.share(**share)],
        )
        assert self.control is not None
        await self.control.send(self.node_id, [order])
        return ticket

    def share(
        self, *, compute_milli: int = 500, memory_bytes: int = MEMORY_BYTES, device: str = ""
    ) -> ShareOrder:
        """Return a share of a device, the first by default."""
        device_id = device or self.hello.devices[0].id
        return ShareOrder(device_id=device_id, compute_milli=compute_milli, memory_bytes=memory_bytes)

    @property
    def node_id(self) -> str:
        return self.hello.node_id

    @property
    def hello(self) -> HelloReport:
        """The newest hello."""
        return self.all(HelloReport)[-1]

    @property
    def socket(self) -> Path:
        return paths.socket_path(self.runtime)

    def all(self, kind: type[Any]) -> list[Any]:
        """Return all reports of one kind."""
        return [report for report in self.reports if isinstance(report, kind)]

    async def told(self, kind: type[Any], *, count: int = 1) -> Any:
        """Wait for the ``count``-th report of a kind."""
        await until(lambda: len(self.all(kind)) >= count, what=f"{count} x {kind.__name__}")
        return self.all(kind)[count - 1]

    @property
    def log(self) -> str:
        """What the agents have said."""
        return (self.runtime / "agent.log").read_text()

    async def close(self) -> None:
        """End everything that was started."""
        await self._stack.aclose()
        await self.stop_serving()

    async def _on_reports(self, node_id: str, reports: list[Report]) -> None:
        self.reports.extend(reports)

    async def _on_left(self, node_id: str) -> None:
        self.left.append(node_id)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


@contextlib.asynccontextmanager
async def node_bench() -> AsyncIterator[NodeBench]:
    """Give a node in the test's own runtime directory."""
    bench = NodeBench(paths.make_runtime_dir())
    try:
        yield bench
    except BaseException as error:
        error.add_note(f"The agents' log:\n{bench.log}")
        raise
    finally:
        await bench.close()
