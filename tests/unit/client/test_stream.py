"""Events are read however they were cut, and the stream's socket closes with its reader."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from jupyter_gpupool.client import stream
from jupyter_gpupool.client.aio import AsyncPoolClient
from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.errors import NotAuthorised, PoolUnreachable
from jupyter_gpupool.client.stream import EventParser, ServerEvent
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import ErrorDoc
from tests.support.fake_pool import pool_doc
from tests.support.waiting import until

TEXT = b': hello\n\nevent: pool\r\nid: 7\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata: x\n\n'
EVENTS = [ServerEvent("pool", "7", '{"a":\n1}'), ServerEvent("message", "", "x")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(TEXT)])
def test_events_are_found_however_the_bytes_were_cut(size):
    parser = EventParser()
    found = [e for start in range(0, len(TEXT), size) for e in parser.feed(TEXT[start : start + size])]
    assert found == EVENTS


class Upstream:
    """Answers one request with bytes that a test gives it."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.closed = 0

    async def __aenter__(self) -> Upstream:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.connection = Connection(
            url=f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}", token="t"
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = await reader.readuntil(b"\r\n\r\n")
        self.writers.append(writer)
        await reader.read()
        self.closed += 1

    def send(self, body: bytes, *, status: str = "200 OK", first: bool = False) -> None:
        head = f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() if first else b""
        self.writers[-1].write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n")


@pytest.mark.asyncio
async def test_snapshots_arrive_and_the_socket_closes_when_the_reader_stops():
    async with Upstream() as upstream:
        received = []

        async def follow() -> None:
            async with aclosing(AsyncPoolClient(upstream.connection).events()) as events:
                async for doc in events:
                    received.append(doc.revision)  # noqa: PERF401 - seen one by one, while it goes on

        task = asyncio.create_task(follow())
        await until(lambda: upstream.writers, what="the client asks")
        upstream.send(b"event: pool\ndata: " + encode(pool_doc(1)) + b"\n\n", first=True)
        upstream.send(b": comment\n\nevent: pool\ndata: " + encode(pool_doc(2)) + b"\n\n")
        await until(lambda: received == [1, 2], what="both arrive")
        assert b"Authorization: Bearer t\r\n" in upstream.request
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: upstream.closed, what="the socket closes")


@pytest.mark.asyncio
async def test_a_stream_that_ends_or_falls_silent_is_a_pool_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 0.3)
    async with Upstream() as upstream:
        events = AsyncPoolClient(upstream.connection).events()
        with pytest.raises(PoolUnreachable):
            await anext(events)
        events = AsyncPoolClient(upstream.connection).events()
        waiting = asyncio.ensure_future(anext(events))
        await until(lambda: len(upstream.writers) == 2, what="the client asks")
        upstream.writers[-1].close()
        with pytest.raises(PoolUnreachable):
            await waiting


@pytest.mark.asyncio
async def test_a_stream_that_is_refused_raises_the_refusal():
    async with Upstream() as upstream:
        waiting = asyncio.ensure_future(anext(AsyncPoolClient(upstream.connection).events()))
        await until(lambda: upstream.writers, what="the client asks")
        body = encode(ErrorDoc(code="unauthenticated", message="Who are you?"))
        upstream.send(body, status="401 Unauthorized", first=True)
        with pytest.raises(NotAuthorised, match="Who are you"):
            await waiting


@pytest.mark.asyncio
async def test_nobody_listening_is_one_sentence():
    with pytest.raises(PoolUnreachable, match="does not accept connections"):
        await anext(AsyncPoolClient(Connection(url="http://127.0.0.1:1", token="t")).events())
    with pytest.raises(PoolUnreachable, match="does not answer"):
        await AsyncPoolClient(Connection(url="http://127.0.0.1:1", token="t")).pool()


@pytest.mark.asyncio
async def test_a_file_of_whom_to_trust_that_is_not_there_is_one_sentence():
    client = AsyncPoolClient(Connection(url="https://127.0.0.1:1", token="t", ca_file="/nowhere/ca.pem"))
    with pytest.raises(PoolUnreachable, match="does not accept connections"):
        await anext(client.events())
    with pytest.raises(PoolUnreachable, match="does not answer"):
        await client.pool()
    client.close()


@pytest.mark.asyncio
async def test_a_cancellation_that_comes_with_a_chunk_ends_the_reader():
    arriving: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    reader = asyncio.ensure_future(stream._bounded(arriving, Connection(url="http://127.0.0.1:1", token="t")))
    await asyncio.sleep(0)  # it waits now
    arriving.set_result(b"chunk")
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
