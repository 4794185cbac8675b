"""A pool in name only: it speaks the HTTP API, answers what a test says, and notes what it is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.testing import bind_unused_port

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import (
    AttachDoc,
    DeviceDoc,
    ErrorDoc,
    HealthDoc,
    HolderDoc,
    LeaseDoc,
    NodeDoc,
    PoolDoc,
    ReadingsDoc,
)

OWNER = "ann"


def lease_doc(lease_id: str = "lease_1", **changes: Any) -> LeaseDoc:
    """Build a held lease of a quarter of ``cpu``."""
    doc = LeaseDoc(
        id=lease_id,
        state=LeaseState.ACTIVE,
        mine=True,
        owner=OWNER,
        compute_milli=250,
        memory_bytes=2**30,
        kind=DeviceKind.CPU,
        device="",
        shares=[],
        node_id="node",
        holder=HolderDoc(),
        isolation=[],
        generation=1,
        position=None,
        reason="",
        waited_seconds=0.0,
        held_seconds=1.0,
        expires_seconds=None,
        wait_left_seconds=None,
        memory_used_bytes=None,
        end_reason=None,
        end_detail="",
        resizing=False,
        tag="1",
    )
    return msgspec.structs.replace(doc, **changes)


def ticket() -> AttachDoc:
    """Build what would let its reader attach a process to a lease."""
    return AttachDoc(
        socket="/run/agent.sock",
        ticket="a-secret-ticket",
        node_id="node",
        hostname="here",
        expires_seconds=60.0,
    )


def pool_doc(revision: int = 1, *, memory_used_bytes: int | None = 0, **changes: Any) -> PoolDoc:
    """Build a snapshot of a pool with one CPU device."""
    device = DeviceDoc(
        id="CPU-1",
        name="cpu",
        node_id="node",
        kind=DeviceKind.CPU,
        model="CPU",
        emulated=False,
        memory_bytes=4 * 2**30,
        compute_units=2,
        free_compute_milli=1000,
        free_memory_bytes=4 * 2**30,
        unmanaged_bytes=None,
        health=Health.HEALTHY,
        offered=True,
        withheld="",
        readings=ReadingsDoc(memory_used_bytes=memory_used_bytes),
        leases=[],
    )
    doc = PoolDoc(
        revision=revision,
        version="1",
        me=OWNER,
        embedded=True,
        nodes=[NodeDoc(id="node", hostname="here", connected=True)],
        devices=[device],
        leases=[],
        queue=[],
        warnings=[],
    )
    return msgspec.structs.replace(doc, **changes)


class FakePool:
    """One such service, on the running loop.

    Attributes
    ----------
    doc : PoolDoc
        The newest snapshot.
    asked : list of tuple
        Every call but ``/health`` and the event stream: method, path with query, body.
    answers : dict
        What to answer: (method, path) -> (status, body); everything else is 404.
    streams : set of asyncio.Queue
        The event streams that are open.
    stream_count : int
        How many event streams were ever opened.
    """

    def __init__(self) -> None:
        self.token = "token-of-the-owner"
        self.doc = pool_doc()
        self.asked: list[tuple[str, str, bytes]] = []
        self.answers: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.streams: set[asyncio.Queue[PoolDoc | None]] = set()
        self.stream_count = 0
        self.socket, self.port = bind_unused_port("127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: HTTPServer | None = None

    async def start(self) -> None:
        """Listen."""
        app = web.Application(
            [
                (r"/health", _Health),
                (rf"{names.API_PREFIX}/events", _Events, {"pool": self}),
                (r".*", _Anything, {"pool": self}),
            ]
        )
        self._server = HTTPServer(app)
        self._server.add_socket(self.socket)

    async def stop(self) -> None:
        """End all streams and listen no more."""
        self.drop_streams()
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()
            self._server = None

    def publish(self, doc: PoolDoc) -> None:
        """Send a snapshot to whoever follows."""
        self.doc = doc
        for stream in self.streams:
            stream.put_nowait(doc)

    def drop_streams(self) -> None:
        """Break every event stream."""
        for stream in self.streams:
            stream.put_nowait(None)

    def answer(self, method: str, path: str, value: object, *, status: int = 200) -> None:
        """Say what to answer to a call."""
        self.answers[method, f"{names.API_PREFIX}/{path}"] = (status, encode(value))


class _Health(web.RequestHandler):
    def get(self) -> None:
        self.finish(encode(HealthDoc(status="ok", version="1", api=names.API_MAJOR)))


class _Served(web.RequestHandler):
    def initialize(self, pool: FakePool) -> None:
        self.pool = pool

    def prepare(self) -> None:
        if self.request.headers.get("Authorization") != f"Bearer {self.pool.token}":
            self.set_status(401)
            self.finish(encode(ErrorDoc(code="unauthenticated", message="The token is not known.")))


class _Events(_Served):
    async def get(self) -> None:
        mine = self.mine = asyncio.Queue[PoolDoc | None]()
        mine.put_nowait(self.pool.doc)
        self.pool.streams.add(mine)
        self.pool.stream_count += 1
        self.set_header("Content-Type", "text/event-stream")
        try:
            while (doc := await mine.get()) is not None:
                self.write(f"event: pool\nid: {doc.revision}\ndata: {encode(doc).decode()}\n\n")
                await self.flush()
        except StreamClosedError:
            return
        finally:
            self.pool.streams.discard(mine)

    def on_connection_close(self) -> None:
        self.mine.put_nowait(None)


class _Anything(_Served):
    def _answer(self) -> None:
        request = self.request
        self.pool.asked.append((request.method or "", request.uri or "", request.body))
        unknown = ErrorDoc(code="not_found", message="There is no such thing.")
        status, body = self.pool.answers.get((request.method or "", request.path), (404, encode(unknown)))
        self.set_status(status)
        self.finish(body)

    get = patch = delete = post = _answer
