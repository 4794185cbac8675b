"""Who may attach: a process of the same user, that the agent can see, with a ticket that is good."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpupool.protocol import codec, names
from jupyter_gpupool.protocol.messages import AttachedReport, AttachReply
from tests.support.accounts import account, unique
from tests.support.node_bench import NodeBench, node_bench

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="agents run on Linux")
needs_root = pytest.mark.skipif("os.geteuid() != 0", reason="needs root to become another user")

NOBODY = 65534


@pytest.fixture
def open_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a runtime directory whose parents other users may enter."""
    base = Path(tempfile.mkdtemp(prefix="jgp-test-"))
    base.chmod(0o755)
    monkeypatch.setenv(names.ENV_RUNTIME_DIR, os.fspath(base / "run"))
    yield base / "run"
    shutil.rmtree(base)


async def _refused(bench: NodeBench, ticket: str) -> str:
    """Show a ticket from a new process and return the code of the refusal."""
    holder = await bench.holder()
    reply = await holder.attach(bench.socket, ticket)
    assert reply.error is not None
    assert reply.error.message
    assert reply.error.hint
    return reply.error.code


@pytest.mark.asyncio
async def test_an_unknown_ticket_is_refused() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        await bench.prepare()
        assert await _refused(bench, "not-the-ticket") == "stale_ticket"


@pytest.mark.asyncio
@pytest.mark.parametrize("use_peerpidfd", [True, False])
async def test_a_ticket_is_good_for_one_use(use_peerpidfd: bool) -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent(use_peerpidfd=use_peerpidfd)
        ticket = await bench.prepare()
        holder = await bench.holder()
        assert (await holder.attach(bench.socket, ticket)).error is None
        assert await _refused(bench, ticket) == "stale_ticket"
        assert len(bench.all(AttachedReport)) == 1


@pytest.mark.asyncio
async def test_a_newer_ticket_makes_the_older_one_stale() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        older = await bench.prepare()
        newer = await bench.prepare()
        assert await _refused(bench, older) == "stale_ticket"
        holder = await bench.holder()
        assert (await holder.attach(bench.socket, newer)).error is None


@needs_root
@pytest.mark.asyncio
async def test_another_user_cannot_open_the_socket(open_runtime: Path) -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        ticket = await bench.prepare()
        holder = await bench.holder()
        answer = await holder.ask("attach", path=os.fspath(bench.socket), ticket=ticket, uid=NOBODY)
        assert answer == {"refused": "Permission denied"}
        assert bench.socket.stat().st_mode & 0o777 == 0o600


@needs_root
@pytest.mark.asyncio
async def test_another_user_who_reaches_the_socket_is_refused_and_the_ticket_stays_good(
    open_runtime: Path,
) -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        os.chmod(open_runtime, 0o755)  # noqa: PTH101, S103
        bench.socket.chmod(0o666)
        ticket = await bench.prepare()
        stranger = await bench.holder()
        reply = await stranger.attach(bench.socket, ticket, uid=NOBODY)
        assert reply.error is not None
        assert reply.error.code == "wrong_user"
        assert str(NOBODY) in reply.error.message

        holder = await bench.holder()
        assert (await holder.attach(bench.socket, ticket)).error is None


@needs_root
@pytest.mark.skipif(not shutil.which("useradd"), reason="needs useradd")
@pytest.mark.xdist_group("accounts")
@pytest.mark.asyncio
async def test_where_owners_have_accounts_a_holder_runs_as_its_owners(open_runtime: Path) -> None:
    public = open_runtime.with_name("public")
    with account(unique("h")) as ann:
        rules = {
            "launcher": "setuid",
            "accounts": [["test", ann.pw_name]],
            "socket_directory": os.fspath(public),
        }
        async with node_bench() as bench:
            await bench.serve()
            await bench.agent(rules=rules)
            assert bench.hello.socket == os.fspath(public / "agent.sock")
            for uid in (NOBODY, None):  # somebody else, and the agent's own user
                stranger = await bench.holder()
                reply = await stranger.attach(public / "agent.sock", await bench.prepare(), uid=uid)
                assert reply.error is not None
                assert (reply.error.code, ann.pw_name in reply.error.message) == ("wrong_user", True)

            holder = await bench.holder()
            reply = await holder.attach(public / "agent.sock", await bench.prepare(), uid=ann.pw_uid)
            # root in a container may be kept from changing limits of others; it was admitted all the same
            assert reply.error is None or "CAP_SYS_RESOURCE" in reply.error.hint
            await holder.kill()


@needs_root
@pytest.mark.asyncio
async def test_a_process_outside_the_agents_pid_namespace_is_refused_with_the_next_step() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent(wrap=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
        ticket = await bench.prepare()
        holder = await bench.holder()
        reply = await holder.attach(bench.socket, ticket)
        assert reply.error is not None
        assert reply.error.code == "pid_namespace"
        assert "host PID namespace" in reply.error.hint


@pytest.mark.asyncio
async def test_nonsense_on_the_socket_gets_an_answer_and_harms_nobody() -> None:
    async with node_bench() as bench:
        await bench.serve()
        await bench.agent()
        for line in (
            b"x" * 10_000 + b"\n",
            b"not json\n",
            b'{"ticket": "t"}\n',
            b'{"ticket": "t", "format": 99}\n',
        ):
            reader, writer = await asyncio.open_unix_connection(bench.socket)
            writer.write(line)
            async with asyncio.timeout(10):
                reply = codec.decode(await reader.readline(), AttachReply)
            writer.close()
            assert reply.error is not None
            assert reply.error.code == "bad_message"
        holder = await bench.holder()
        assert (await holder.attach(bench.socket, await bench.prepare())).error is None
