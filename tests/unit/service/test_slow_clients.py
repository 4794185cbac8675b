"""Clients that send a byte now and then keep a connection for a while, and never for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from jupyter_gpupool.service import http


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest_asyncio.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as door:
        async with http.serving(_hello, [door]):
            yield door.getsockname()[1]


async def _until_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> int:
    """Send a byte now and then; return how many were sent before the connection was cut."""
    sent = 0
    cut = asyncio.ensure_future(reader.read())
    for byte in head:
        writer.write(bytes([byte]))
        sent += 1
        done, _ = await asyncio.wait([cut], timeout=0.05)
        if done:
            break
    await asyncio.wait_for(cut, 10)
    assert cut.result() == b""
    writer.close()
    return sent


@pytest.mark.asyncio
async def test_a_head_that_comes_byte_by_byte_is_cut_off(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X-More: more\r\n" * 20
    many = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
    sent = await asyncio.gather(*(_until_cut(*one, head) for one in many))
    assert max(sent) < len(head) // 2


@pytest.mark.asyncio
async def test_a_connection_on_which_nothing_comes_is_cut_off(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


@pytest.mark.asyncio
async def test_a_kept_connection_may_rest_and_its_next_head_has_the_same_time(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"hello"), 10)).startswith(b"HTTP/1.1 200")
        # longer than a head may take
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.6)
    writer.write(b"G")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
