"""The thread behind the monitor looks only while somebody does, and is one."""

from __future__ import annotations

import threading

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.widgets.watch import Watch
from tests.support.fake_pool import pool_doc
from tests.support.waiting import wait_for


class Shown:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.docs: list[PoolDoc] = []
        self.failed: list[str] = []
        self.resting = threading.Event()

    def show(self, doc: PoolDoc) -> None:
        self.docs.append(doc)

    def fail(self, sentence: str) -> None:
        self.failed.append(sentence)

    def rest(self) -> None:
        self.resting.set()


def named() -> list[threading.Thread]:
    return [it for it in threading.enumerate() if it.name == "jupyter_gpupool monitor"]


def test_two_viewers_share_one_thread_which_ends_with_the_last():
    watch, first, second = Watch(pool_doc, period_seconds=0.01), Shown(), Shown()
    before = len(named())
    watch.look(first)
    watch.look(second)
    watch.look(second)
    wait_for(lambda: first.docs and second.docs, "both see the pool")
    assert len(named()) == before + 1
    watch.leave(first)
    seen = len(second.docs)
    wait_for(lambda: len(second.docs) > seen, "the other one still does")
    watch.leave(second)
    wait_for(lambda: not watch.alive, "the thread ends with the last viewer")


def test_it_ends_by_itself_when_there_was_no_sign_of_life():
    watch, viewer = Watch(pool_doc, period_seconds=0.01, most_seconds=0.05), Shown()
    watch.look(viewer)
    assert viewer.resting.wait(10)
    wait_for(lambda: not watch.alive, "the thread ends")
    watch.look(viewer)
    assert watch.alive or len(viewer.docs) > 0
    watch.leave(viewer)
    wait_for(lambda: not watch.alive, "the thread ends again")


def test_a_pool_that_is_away_is_said_and_comes_back():
    answers: list[object] = [GPUPoolError("The pool is away."), OSError("no such socket")]

    def read() -> PoolDoc:
        if answers:
            raise answers.pop(0)  # type: ignore[misc]
        return pool_doc()

    watch, viewer = Watch(read, period_seconds=0.01), Shown()
    watch.look(viewer)
    wait_for(lambda: viewer.docs, "the pool is back")
    assert viewer.failed[0].startswith("The pool is away.")
    assert len(viewer.failed) == 2
    watch.leave(viewer)
    wait_for(lambda: not watch.alive, "the thread ends")
