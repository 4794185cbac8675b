"""The live channel of browser tabs."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.server.settings import ServerParts
from tests.support.fake_pool import FakePool, lease_doc, pool_doc, ticket
from tests.support.waiting import until


async def read(socket: Any, kind: str) -> dict[str, Any]:
    """Read until a message of one kind comes."""
    async with asyncio.timeout(20):
        while (text := await socket.read_message()) is not None:
            message: dict[str, Any] = json.loads(text)
            if message["type"] == kind:
                return message
    raise AssertionError(f"the socket closed before a {kind} message")


async def read_any(socket: Any) -> dict[str, Any]:
    """Read the next message."""
    async with asyncio.timeout(20):
        message: dict[str, Any] = json.loads(await socket.read_message())
    return message


async def read_revision(socket: Any, revision: int) -> int:
    """Read until a snapshot is as new as ``revision``; return how many came until then."""
    for count in range(1, 10_000):
        message = await read(socket, "pool")
        if message["pool"]["revision"] >= revision:
            return count
    raise AssertionError("too many messages")


async def test_a_new_tab_is_told_everything_at_once(open_tab: Any, connected: Any) -> None:
    await connected()
    tab = await open_tab()
    messages = {}
    while messages.keys() != {"status", "pool", "kernels"}:
        message = json.loads(await tab.read_message())
        messages[message["type"]] = message
    assert messages["status"] == {"type": "status", "state": "connected", "message": "", "hint": ""}
    assert messages["pool"]["pool"]["devices"][0]["name"] == "cpu"
    assert messages["kernels"]["kernels"] == []


async def test_a_tab_that_comes_back_is_told_the_status_and_only_what_is_newer(
    open_tab: Any, fake_pool: FakePool, connected: Any
) -> None:
    await connected()
    tab = await open_tab()
    kernels, pool = await read(tab, "kernels"), await read(tab, "pool")
    tab.close()

    back = await open_tab(params={"after": pool["mark"]})
    assert (await read_any(back))["state"] == "connected"
    fake_pool.publish(pool_doc(2))
    assert (await read_any(back))["pool"]["revision"] == 2
    back.close()
    # the kernels' message is older than the snapshot that it says it has
    assert kernels["mark"] != pool["mark"]
    again = await open_tab(params={"after": kernels["mark"]})
    kinds = [(await read_any(again))["type"] for _ in range(2)]
    assert sorted(kinds) == ["pool", "status"]


@pytest.mark.parametrize(
    "mark", ["", "0", "-", "ffffffff-1", "{name}-", "{name}-x", "{name}-\u00b2", "{name}-99" * 9]
)
async def test_a_tab_with_a_mark_of_another_server_is_told_everything(
    open_tab: Any, connected: Any, mark: str
) -> None:
    await connected()
    first = await open_tab()
    name = (await read(first, "pool"))["mark"].partition("-")[0]
    tab = await open_tab(params={"after": mark.replace("{name}", name)})
    assert {(await read_any(tab))["type"] for _ in range(3)} == {"status", "pool", "kernels"}


async def test_before_the_pool_is_there_a_tab_is_told_that_it_starts(open_tab: Any) -> None:
    tab = await open_tab()
    assert (await read(tab, "status"))["state"] == "starting"


async def test_twenty_tabs_are_fed_by_one_stream_from_the_pool(
    open_tab: Any, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    await connected()
    tabs = [await open_tab() for _ in range(20)]
    for revision in (2, 3):
        fake_pool.publish(pool_doc(revision))
        for tab in tabs:
            await read_revision(tab, revision)
    assert fake_pool.stream_count == 1
    assert parts.feed.listener_count == 20
    for tab in tabs:
        tab.close()
    await until(lambda: parts.feed.listener_count == 0, what="closed tabs to stop listening")
    assert parts.sockets == set()


async def test_a_tab_that_vanishes_without_goodbye_stops_listening(
    open_tab: Any, parts: ServerParts, connected: Any
) -> None:
    await connected()
    tab = await open_tab()
    await until(lambda: parts.feed.listener_count == 1, what="the tab to listen")
    tab.protocol.stream.socket.shutdown(sockets.SHUT_RDWR)
    await until(lambda: parts.feed.listener_count == 0, what="the lost tab to stop listening")


@pytest.mark.slow
async def test_a_tab_that_answers_no_ping_is_closed(
    open_tab: Any, jp_web_app: Any, parts: ServerParts, connected: Any
) -> None:
    jp_web_app.settings["websocket_ping_interval"] = 0.5
    await connected()
    alive, dead = await open_tab(), await open_tab()
    reading = asyncio.ensure_future(read(alive, "nothing of this kind"))
    await until(lambda: parts.feed.listener_count == 2, what="both tabs to listen")
    dead.protocol.stream.io_loop.remove_handler(dead.protocol.stream.socket.fileno())  # it reads no more
    await until(lambda: parts.feed.listener_count == 1, what="the dead tab to be closed")
    [server_side] = parts.sockets
    opened = server_side.last_pong
    await until(lambda: server_side.last_pong > opened, what="the other tab to answer once more")
    assert not reading.done()
    reading.cancel()
    dead.protocol.stream._state = None
    dead.protocol.stream._add_io_state(1)


async def test_a_slow_tab_gets_the_newest_and_no_backlog(
    open_tab: Any, fake_pool: FakePool, parts: ServerParts, connected: Any
) -> None:
    await connected()
    slow = await open_tab()
    await read(slow, "pool")
    [server_side] = parts.sockets
    connection = server_side.ws_connection.stream
    connection.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, 4096)
    # The tab reads nothing more from its socket until it is told to.
    slow.protocol.stream.io_loop.remove_handler(slow.protocol.stream.socket.fileno())
    long_warnings = ["x" * 200_000]
    newest = 200
    for revision in range(2, newest + 1):
        fake_pool.publish(pool_doc(revision, warnings=long_warnings))
    await until(lambda: parts.link.pool.revision == newest, what="the link to have the newest snapshot")
    pending = len(connection._write_buffer) + sum(len(text) for text in server_side._waiting.values())
    assert pending < 3 * 200_000  # one on its way, one waiting
    slow.protocol.stream._state = None
    slow.protocol.stream._add_io_state(1)
    assert await read_revision(slow, newest) < 20


class TestWithALoginCookie:
    """A browser that is logged in; with a token in the request the server does not look at the origin."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.IdentityProvider.cookie_name = "login"
        return jp_server_config

    @pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
    async def test_a_page_of_another_origin_may_not_listen(
        self, jp_fetch: Any, open_tab: Any, parts: ServerParts, origin: str
    ) -> None:
        answer = await jp_fetch("api", "me")
        cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0], "Authorization": ""}
        tab = await open_tab(headers=dict(cookie))
        assert (await read(tab, "status"))["state"] == "starting"
        tab.close()
        with pytest.raises(HTTPClientError) as caught:
            await open_tab(headers={**cookie, "Origin": origin})
        assert caught.value.code == 403
        await until(lambda: parts.feed.listener_count == 0, what="the first tab to stop listening")


async def test_nobody_listens_without_a_token(open_tab: Any, parts: ServerParts) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await open_tab(headers={"Authorization": "token wrong"})
    assert caught.value.code == 403
    assert parts.feed.listener_count == 0


async def test_a_ticket_never_goes_over_the_stream(
    open_tab: Any, fake_pool: FakePool, connected: Any
) -> None:
    fake_pool.doc = pool_doc(leases=[lease_doc(state=LeaseState.ATTACHING, attach=ticket())])
    await connected()
    tab = await open_tab()
    message = await read(tab, "pool")
    assert message["pool"]["leases"][0]["id"] == "lease_1"
    assert "a-secret-ticket" not in json.dumps(message)


async def test_when_the_server_stops_the_tabs_are_told(
    open_tab: Any, jp_serverapp: Any, parts: ServerParts, connected: Any
) -> None:
    await connected()
    tab = await open_tab()
    await read(tab, "status")
    await jp_serverapp.extension_manager.stop_all_extensions()
    while await tab.read_message() is not None:
        pass
    assert tab.close_code == 1001
    await until(lambda: parts.feed.listener_count == 0, what="the tab to stop listening")
