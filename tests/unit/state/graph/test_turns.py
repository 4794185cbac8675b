"""Turns of threads are long while somebody looks, and as before when the last one has looked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from jupyter_gpupool.state.graph.threads import one_moment


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
