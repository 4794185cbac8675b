"""Turns of threads are long while somebody looks, and as before when the last one has looked."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from jupyter_gpupool.state.graph.threads import one_moment, users_threads


@pytest.fixture
def another_thread() -> Iterator[None]:
    """Let there be a thread of the user's: where there is none, nothing has to be kept waiting."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(60,))
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("another_thread")
def test_whoever_ends_last_puts_the_interval_back() -> None:
    before = sys.getswitchinterval()
    first, second = one_moment(), one_moment()
    first.__enter__()
    assert sys.getswitchinterval() > before
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() > before
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


def test_an_error_puts_it_back_too() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), one_moment():
        raise KeyError
    assert sys.getswitchinterval() == before


def test_no_garbage_is_collected_while_the_threads_are_looked_at() -> None:
    collected = []
    threshold = gc.get_threshold()

    def note(phase: str, _: object) -> None:
        caller = sys._getframe(1)
        if caller.f_code.co_name == "_frames":
            collected.append(phase)

    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        for _ in range(50):
            users_threads()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
    assert collected == []
    assert gc.isenabled()
