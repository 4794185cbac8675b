"""The keys of a session cluster."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest

from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.sessions.order import WorkerOrder
from jupyter_gpupool.sessions.security import MemorySecurity, new_security, security_from


async def greet(server: MemorySecurity, client: MemorySecurity) -> bytes:
    """Say a word over a connection between the two, and return what arrived."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"hello\n")
            await writer.drain()
        finally:
            writer.close()

    listening = server.get_listen_args("scheduler")["ssl_context"]
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=listening) as listener:
        port = listener.sockets[0].getsockname()[1]
        context = client.get_connection_args("worker")["ssl_context"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            return await reader.readline()
        finally:
            writer.close()


@pytest.mark.asyncio
async def test_whoever_has_the_key_is_let_in() -> None:
    made = new_security()
    assert await greet(made, security_from(made.tls_worker_cert, made.tls_worker_key)) == b"hello\n"


@pytest.mark.asyncio
async def test_another_clusters_key_opens_nothing() -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await greet(new_security(), new_security())


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")
def test_no_file_has_the_key_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there is no such directory"))
    context = new_security().get_connection_args("client")["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_an_order_does_not_show_its_secrets() -> None:
    attach = AttachDoc(socket="/s", ticket="tick", node_id="n", hostname="h", expires_seconds=1.0)
    order = WorkerOrder(
        format=1,
        name="w-0",
        lease_id="lease_1",
        attach=attach,
        cuda=False,
        device_memory_bytes=0,
        scheduler="tls://127.0.0.1:1",
        host="127.0.0.1",
        nthreads=1,
        memory_limit_bytes=0,
        resources={},
        certificate="PEM",
        key="SECRET",
        config="",
        path=[],
        parent=0,
    )
    assert "SECRET" not in repr(order)
    assert "tick" not in repr(order)
