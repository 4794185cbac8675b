"""Who reaches the scheduler and the agent: peers with our certificates only; and they can do little there."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
from distributed.core import rpc

from jupyter_gpupool.cluster.dask_config import control_config
from jupyter_gpupool.cluster.tls import ControlRole, ControlTLS, ensure_control_tls
from jupyter_gpupool.protocol import names
from tests.support.node_bench import NodeBench, node_bench

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")


@asynccontextmanager
async def _node() -> AsyncIterator[tuple[NodeBench, list[int], int]]:
    """Give a node with the ports of its service (this process) and its agent, and the agent's pid."""
    async with node_bench() as bench:
        mine = set(_ports(os.getpid()))
        await bench.serve()
        agent = await bench.agent()
        ports = [*(set(_ports(os.getpid())) - mine), *_ports(agent.pid)]
        assert len(ports) == 2
        yield bench, ports, agent.pid


def _listening(pid: int) -> list[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections("inet")
    return [(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN]


def _ports(pid: int) -> list[int]:
    return [port for _, port in _listening(pid)]


@pytest.mark.asyncio
async def test_service_and_agent_listen_on_loopback_only_each_on_one_port() -> None:
    async with _node() as (_, _, agent):
        addresses = {ip for pid in (os.getpid(), agent) for ip, _ in _listening(pid)}
        assert addresses == {"127.0.0.1"}


@pytest.mark.asyncio
async def test_plain_tcp_and_http_get_no_answer() -> None:
    async with _node() as (_, ports, _):
        for port in ports:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.0\r\n\r\n")
            async with asyncio.timeout(15):
                with suppress(ConnectionResetError):
                    assert b"HTTP" not in await reader.read()
            writer.close()


def _tls_context(tls: ControlTLS | None, trust: ControlTLS) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=os.fspath(trust.ca_file))
    context.check_hostname = False
    if tls is not None:
        certificate, key = tls.files(ControlRole.AGENT)
        context.load_cert_chain(certificate, key)
    return context


def _is_served(port: int, context: ssl.SSLContext) -> bool:
    """Tell whether the other side goes on after the handshake (with TLS 1.3 a refusal comes after it)."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        try:
            with context.wrap_socket(plain) as stream:
                stream.settimeout(10)
                return bool(stream.recv(1))
        except ssl.SSLError:
            return False


@pytest.mark.asyncio
async def test_a_peer_without_our_certificate_is_refused_by_scheduler_and_agent(tmp_path: Path) -> None:
    async with _node() as (bench, ports, _):
        ours = ControlTLS(bench.runtime / names.TLS_DIR)
        others = ensure_control_tls(tmp_path / "others")
        for port in ports:
            assert await asyncio.to_thread(_is_served, port, _tls_context(ours, ours))
            assert not await asyncio.to_thread(_is_served, port, _tls_context(None, ours))
            assert not await asyncio.to_thread(_is_served, port, _tls_context(others, ours))


@pytest.mark.asyncio
async def test_other_users_cannot_read_a_key() -> None:
    async with node_bench() as bench:
        await bench.serve()
        tls = bench.runtime / names.TLS_DIR
        assert stat.S_IMODE(tls.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tls.iterdir()}
        assert set(modes.values()) == {0o600}
        assert sorted(modes) == ["agent.key", "agent.pem", "ca.pem", "service.key", "service.pem"]


@pytest.mark.asyncio
async def test_nobody_becomes_a_client_or_runs_a_function() -> None:
    async with _node() as (bench, ports, _):
        security = ControlTLS(bench.runtime / names.TLS_DIR).security("worker")
        arguments = security.get_connection_args("worker")
        with control_config():
            for port in ports:
                async with rpc(f"tls://127.0.0.1:{port}", connection_args=arguments) as peer:
                    for name in (
                        *("register-client", "run", "run_function", "register_scheduler_plugin"),
                        *("identity", "terminate", "plugin-add", "upload_file", "broadcast"),
                    ):
                        assert await getattr(peer, name)() is None
            assert bench.control is not None
            assert bench.control.connected


@pytest.mark.asyncio
async def test_an_agents_certificate_gives_no_orders_and_a_services_sends_no_reports() -> None:
    async with _node() as (bench, ports, _):
        tls = ControlTLS(bench.runtime / names.TLS_DIR)
        service_port, agent_port = ports
        with control_config():
            for port, role, call in (
                (agent_port, "worker", "gpupool_orders"),
                (service_port, "scheduler", "gpupool_report"),
            ):
                arguments = tls.security(role).get_connection_args(role)
                async with rpc(f"tls://127.0.0.1:{port}", connection_args=arguments) as peer:
                    with pytest.raises(OSError, match="closed"):
                        await getattr(peer, call)(data=b"[]")
