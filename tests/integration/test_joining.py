"""How a machine becomes a node, on loopback: the right pool, a good token, one version; who is not."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import ssl
import stat
import sys
from pathlib import Path

import pytest
from distributed.core import rpc

from jupyter_gpupool.cluster import joining
from jupyter_gpupool.cluster.certificates import make_request, new_key
from jupyter_gpupool.cluster.dask_config import control_config
from jupyter_gpupool.cluster.errors import JoinRefused, NotJoined, WrongPool
from jupyter_gpupool.cluster.joining import PoolAddress
from jupyter_gpupool.cluster.tls import ControlRole, ensure_control_tls
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.join import CA_PATH, ENV_JOIN_TOKEN, JOIN_PATH, JoinToken
from tests.support.join_bench import JoinBench, join_bench
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux")


def _ask(bench: JoinBench, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Send one request, whoever answers."""
    context = ssl.create_default_context(cafile=str(bench.parts.tls.ca_file))
    connection = http.client.HTTPSConnection(bench.address.host, bench.address.port, context=context)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    data = answer.status, answer.read()
    connection.close()
    return data


@pytest.mark.asyncio
async def test_a_node_joins_with_a_token_and_needs_none_afterwards(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        record = await bench.join("n1", bench.token())
        assert record.url == str(bench.address)
        link = bench.link("n1")
        await until(lambda: link.connected, what="the node is connected")
        assert bench.control.connected == {"node-n1"}
        files = list((tmp_path / "n1").iterdir())
        assert sorted(it.name for it in files) == ["agent.pem", "ca.pem", "node.json"]
        assert {stat.S_IMODE(it.stat().st_mode) for it in files} == {0o600}
        assert await bench.join("n1", None) == record


@pytest.mark.asyncio
async def test_a_node_comes_back_to_a_service_that_was_started_again(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        await bench.join("n1", bench.token())
        link = bench.link("n1")
        await until(lambda: link.connected, what="the node is connected")
        await bench.stop()
        await until(lambda: not link.connected, what="the node has noticed")
        await bench.serve()
        await until(lambda: link.connected, what="the node is back")


@pytest.mark.asyncio
async def test_tokens_that_are_used_expired_or_wrong_are_refused_in_a_sentence(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        token = bench.token()
        await bench.join("n1", token)
        wrong = JoinToken(id=token.id, secret="x" * 43, pool_sha256=token.pool_sha256)
        for bad, said in (
            (token, "was used already. Ask the pool's administrator"),
            (bench.token(seconds=0.0), "has expired. Ask"),
            (wrong, "is not one of this pool. Ask"),
        ):
            with pytest.raises(JoinRefused, match=said):
                await bench.join("n2", bad)
        with pytest.raises(NotJoined, match="has not joined"):
            await bench.join("n2", None)


@pytest.mark.asyncio
async def test_the_secret_is_not_sent_to_another_pool(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        good = bench.token()
        other = JoinToken(id=good.id, secret=good.secret, pool_sha256="0" * 64)
        with pytest.raises(WrongPool, match="is not the pool that this token is for"):
            await bench.join("n1", other)
        # it was not used up, since it was never sent
        assert [it.uses_left for it in bench.parts.authority.book.tokens()] == [1]
        assert not [it for it in bench.parts.authority.book.audit() if it.what.value == "join_refused"]


@pytest.mark.asyncio
async def test_a_name_that_the_certificate_is_not_for_is_refused(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        with pytest.raises(WrongPool, match=r"not for “127\.1”"):
            await bench.join("n1", bench.token(), PoolAddress("127.1", bench.address.port))
        with pytest.raises(NotJoined, match="does not answer"):
            await bench.join("n1", bench.token(), PoolAddress("127.0.0.1", 1))


@pytest.mark.asyncio
async def test_another_version_is_told_so_in_one_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with join_bench(tmp_path) as bench:
        said = {"format": 99, "version": "9.9", "node_name": "n1", "token": str(bench.token())}
        status, body = await asyncio.to_thread(_ask, bench, "POST", JOIN_PATH, said)
        assert status == 403
        assert "The agent of n1 runs jupyter_gpupool 9.9, which speaks format 99" in body.decode()
        assert "install the same version on both" in body.decode()
        await bench.join("n1", bench.token())
        caplog.set_level(logging.ERROR, "jupyter_gpupool.cluster.link")
        link = bench.link("n1", format=99)
        await until(lambda: "speaks format 99" in caplog.text, what="the agent is told")
        assert not link.connected
        assert not bench.joined


@pytest.mark.asyncio
async def test_a_node_cannot_speak_for_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with join_bench(tmp_path) as bench:
        await bench.join("n1", bench.token())
        caplog.set_level(logging.ERROR, "jupyter_gpupool.cluster.link")
        bench.link("n1", says="node-n2")
        await until(lambda: "its certificate is for node-n1" in caplog.text, what="the agent is told")
        assert not bench.joined


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_a_node_that_is_revoked_is_hung_up_on_and_stays_out(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        await bench.join("n1", bench.token())
        await bench.join("n2", bench.token())
        first, second = bench.link("n1"), bench.link("n2")
        await until(lambda: first.connected and second.connected, what="both are connected")
        bench.parts.authority.book.revoke_node("n1")
        await until(lambda: bench.left == ["node-n1"], what="the pool has hung up")
        await until(lambda: not first.connected, what="the node has noticed")
        assert bench.control.connected == {"node-n2"}
        assert second.connected


@pytest.mark.asyncio
async def test_the_control_plane_takes_no_other_certificate_and_tells_no_stranger_anything(
    tmp_path: Path,
) -> None:
    async with join_bench(tmp_path) as bench:
        record = await bench.join("n1", bench.token())
        others = ensure_control_tls(tmp_path / "others")
        with control_config():
            arguments = others.security("worker").get_connection_args("worker")
            with pytest.raises(OSError, match=r"."):
                async with rpc(record.control, connection_args=arguments) as peer:
                    await peer.gpupool_trust()
        port = record.control.rpartition(":")[2]
        for asked in (("GET", CA_PATH), ("GET", JOIN_PATH), ("POST", JOIN_PATH, {}), ("GET", "/health")):
            status, body = await asyncio.to_thread(_ask, bench, *asked)
            assert status in (200, 400, 403, 404)
            assert port.encode() not in body
            assert b"PRIVATE" not in body


@pytest.mark.slow
@pytest.mark.beside
@pytest.mark.asyncio
async def test_a_certificate_is_renewed_before_the_old_authority_goes(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        await bench.join("n1", bench.token())
        link = bench.link("n1")
        await until(lambda: link.connected, what="the node is connected")
        file = bench.node("n1").tls.files(ControlRole.AGENT)[0]
        before = file.read_bytes()
        bench.parts.authority.begin_rotation()
        await bench.stop()
        await bench.serve()
        await until(lambda: file.read_bytes() != before, what="the certificate was renewed")
        await until(lambda: not bench.parts.authority.behind(), what="the pool knows")
        await until(lambda: link.connected and bench.control.connected, what="the node is connected with it")
        bench.parts.authority.end_rotation(force=False)
        await bench.stop()
        await until(lambda: not link.connected, what="the node has noticed")
        await bench.serve()
        await until(lambda: link.connected, what="the node trusts the new authority")
        token = bench.token()
        await bench.join("n2", token)


@pytest.mark.asyncio
async def test_who_asks_again_with_the_same_key_uses_the_token_once(tmp_path: Path) -> None:
    async with join_bench(tmp_path) as bench:
        token, csr = bench.token(), make_request(new_key())
        said = {"format": names.FORMAT, "version": "x", "token": str(token), "csr": csr}
        said |= {"node_id": "node-n1", "node_name": "n1"}
        for _ in range(2):  # the first answer was lost on the way
            status, _ = await asyncio.to_thread(_ask, bench, "POST", JOIN_PATH, said)
            assert status == 200


@pytest.mark.parametrize("url", ["http://pool", "pool:8750", "https://", "https://pool/x", "https://pool:x"])
def test_only_https_is_the_address_of_a_pool_for_other_machines(url: str) -> None:
    with pytest.raises(NotJoined, match="https://HOST"):
        joining.read_address(url)
    assert str(joining.read_address("https://pool")) == "https://pool:8750"


def test_a_token_comes_from_a_file_or_a_variable_that_no_child_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"gpj1.{'0' * 8}.{'s' * 43}.{'a' * 64}"
    (tmp_path / "token").write_text(f"{text}\n")
    monkeypatch.setenv(ENV_JOIN_TOKEN, text)
    assert str(joining.obtain_token(str(tmp_path / "token"))) == text
    monkeypatch.setenv(ENV_JOIN_TOKEN, text)
    assert str(joining.obtain_token("")) == text
    assert joining.obtain_token("") is None
    with pytest.raises(NotJoined, match="cannot be read"):
        joining.obtain_token(str(tmp_path / "nothing"))
