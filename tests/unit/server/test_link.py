"""The link from a server to its pool, and what the browser is shown of it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import HolderDoc
from jupyter_gpupool.server.background import in_daemon_thread
from jupyter_gpupool.server.feed import Feed
from jupyter_gpupool.server.link import LinkState, PoolLink
from jupyter_gpupool.server.settings import LinkSettings
from jupyter_gpupool.server.snapshots import READINGS_SECONDS, Snapshots
from tests.support.fake_pool import OWNER, FakePool, lease_doc, pool_doc
from tests.support.waiting import until


class Listener:
    """Notes what the feed hands out."""

    def __init__(self, feed: Feed) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        feed.listen(lambda kind, text: self.messages.append((kind, json.loads(text))))

    def states(self) -> list[str]:
        return [message["state"] for kind, message in self.messages if kind == "status"]

    def revisions(self) -> list[int]:
        return [message["pool"]["revision"] for kind, message in self.messages if kind == "pool"]

    def used(self) -> list[int | None]:
        readings = [m["pool"]["devices"][0]["readings"] for kind, m in self.messages if kind == "pool"]
        return [reading["memory_used_bytes"] for reading in readings]


def make_link(feed: Feed, **settings: Any) -> PoolLink:
    return PoolLink(LinkSettings(**settings), feed, log=logging.getLogger("test"))


async def test_a_broken_stream_is_followed_by_a_new_one(fake_pool: FakePool) -> None:
    feed = Feed()
    listener, link = Listener(feed), make_link(feed, url=fake_pool.url, token=fake_pool.token)
    link.start()
    await until(lambda: link.state is LinkState.CONNECTED, what="the link to be connected")
    fake_pool.drop_streams()
    await until(lambda: link.state is LinkState.RECONNECTING, what="the break to be noticed")
    await until(lambda: link.state is LinkState.CONNECTED, what="the link to be connected again")
    await link.close()
    assert listener.states() == ["starting", "connected", "reconnecting", "connected"]
    assert fake_pool.stream_count == 2
    await until(lambda: not fake_pool.streams, what="the stream to be closed")


async def test_what_was_known_stays_known_when_the_pool_goes_away(fake_pool: FakePool) -> None:
    link = make_link(Feed(), url=fake_pool.url, token=fake_pool.token)
    fake_pool.doc = pool_doc(leases=[lease_doc(holder=HolderDoc(kernel_id="k1"))])
    link.start()
    await until(lambda: link.state is LinkState.CONNECTED, what="the link to be connected")
    await fake_pool.stop()
    await until(lambda: link.state is not LinkState.CONNECTED, what="the break to be noticed")
    await link.close()
    assert await link.leases_of("k1") == ["lease_1"]
    assert await link.leases_of("k2") == []
    identity = link.identity()
    assert identity is not None
    assert (identity.url, identity.token, identity.owner) == (fake_pool.url, fake_pool.token, OWNER)
    assert fake_pool.token not in repr(identity)


async def test_without_a_pool_the_link_says_why_and_tries_again_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(names.ENV_AUTOSTART, "0")
    feed = Feed()
    listener, link = Listener(feed), make_link(feed)
    link.start()
    await until(lambda: link.state is LinkState.UNAVAILABLE, what="the link to give up for now")
    status = listener.messages[-1][1]
    assert "No pool was found" in status["message"]
    assert "jupyter gpupool serve" in status["hint"]
    seen = len(listener.messages)
    link.nudge()
    await until(lambda: len(listener.messages) > seen, what="another try")
    await link.close()


async def test_a_kernel_that_starts_before_the_embedded_pool_gets_an_identity_all_the_same() -> None:
    identity = make_link(Feed()).identity()
    assert identity is not None
    assert identity.url == ""
    assert identity.token


async def test_a_runtime_directory_that_cannot_be_used_is_told_once_and_by_the_status(
    tmp_path: Path,
) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    feed = Feed()
    listener, link = Listener(feed), make_link(feed)
    assert link.identity() is None
    link.start()
    await until(lambda: link.state is LinkState.UNAVAILABLE, what="the link to give up for now")
    await link.close()
    assert "Others may enter" in listener.messages[-1][1]["message"]
    assert "JUPYTER_GPUPOOL_RUNTIME_DIR" in listener.messages[-1][1]["hint"]


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"url": "http://127.0.0.1:9"}, ""),
        ({"autostart": False}, ""),
        ({}, names.ENV_URL),
        ({}, "JUPYTERHUB_API_TOKEN"),
    ],
)
async def test_where_another_pool_may_be_meant_no_identity_is_made_up(
    settings: dict[str, Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, "something")
    assert make_link(Feed(), **settings).identity() is None


async def test_a_change_is_shown_at_once_and_readings_once_a_second() -> None:
    feed = Feed()
    listener, snapshots = Listener(feed), Snapshots(feed)
    snapshots.show(pool_doc(1))
    snapshots.show(pool_doc(2))
    assert listener.revisions() == [1, 2]
    start = time.monotonic()
    for used in range(1, 6):
        snapshots.show(pool_doc(2, memory_used_bytes=used))
    assert listener.used() == [0, 0]
    await until(lambda: len(listener.used()) == 3, what="the newest readings")
    assert listener.used() == [0, 0, 5]
    assert time.monotonic() - start > 0.9 * READINGS_SECONDS


async def test_a_snapshot_in_which_only_time_has_passed_is_not_shown() -> None:
    feed = Feed()
    listener, snapshots = Listener(feed), Snapshots(feed)
    snapshots.show(pool_doc(leases=[lease_doc(held_seconds=1.0)]))
    snapshots.show(pool_doc(leases=[lease_doc(held_seconds=2.0)]))
    snapshots.cancel()
    assert listener.revisions() == [1]


async def test_the_first_snapshot_of_a_restarted_service_is_shown_even_if_its_revision_is_not_new() -> None:
    feed = Feed()
    listener, snapshots = Listener(feed), Snapshots(feed)
    snapshots.show(pool_doc(1))
    snapshots.restart()
    snapshots.show(pool_doc(1))
    assert listener.revisions() == [1, 1]


async def test_closing_the_link_does_not_wait_for_a_search_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searching, finish = threading.Event(), threading.Event()

    def search() -> str:
        searching.set()
        finish.wait(20)
        return "found"

    task = asyncio.create_task(in_daemon_thread(search, name="search"))
    await until(searching.is_set, what="the search to begin")
    start = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - start < 1
    finish.set()


async def test_what_a_thread_raises_reaches_who_waits() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_daemon_thread(fail, name="failing")
