"""The pool is told when a cell begins, and when none has run for a while; a cell pays nothing for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from jupyter_gpupool.kernel.activity import ActivityReporter
from tests.support.pool_process import wait_for

SETTLE = 0.05


class Events:
    """The part of a shell that runs callbacks."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[..., None]]] = {"pre_run_cell": [], "post_run_cell": []}

    def register(self, name: str, callback: Callable[..., None]) -> None:
        self.callbacks[name].append(callback)

    def unregister(self, name: str, callback: Callable[..., None]) -> None:
        self.callbacks[name].remove(callback)

    def trigger(self, name: str) -> None:
        for callback in list(self.callbacks[name]):
            callback(None)


class Shell:
    """A shell that runs cells."""

    def __init__(self) -> None:
        self.events = Events()

    def run(self, body: Callable[[], object] = lambda: None) -> None:
        self.events.trigger("pre_run_cell")
        body()
        self.events.trigger("post_run_cell")


class Heard:
    """What the pool was told."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.away = False

    def __call__(self, busy: bool, idle_seconds: float) -> None:
        if self.away:
            raise OSError("the pool is away")
        assert busy or idle_seconds >= 0
        self.told.append(busy)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def reporter(shell: Shell, heard: Heard) -> Iterator[ActivityReporter]:
    made = ActivityReporter(shell, heard, settle_seconds=SETTLE)
    yield made
    made.close()


def hears(heard: Heard, *told: bool) -> None:
    wait_for(lambda: heard.told == [*told], f"{told}, not {heard.told}")


def test_the_end_of_the_cell_that_made_the_request_is_told(
    reporter: ActivityReporter, shell: Shell, heard: Heard
) -> None:
    reporter.open(running=True)
    hears(heard, True)
    shell.events.trigger("post_run_cell")
    hears(heard, True, False)


def test_a_cell_is_told_however_short_it_is(reporter: ActivityReporter, shell: Shell, heard: Heard) -> None:
    reporter.open(running=False)
    hears(heard, False)
    shell.run()
    hears(heard, False, True, False)


def test_many_cells_in_a_row_are_told_once(reporter: ActivityReporter, shell: Shell, heard: Heard) -> None:
    reporter.open(running=False)
    hears(heard, False)
    for _ in range(1000):
        shell.run()
    hears(heard, False, True, False)


def test_it_is_told_anew_when_the_pool_does_not_know_it(
    reporter: ActivityReporter, shell: Shell, heard: Heard
) -> None:
    reporter.open(running=False)
    hears(heard, False)
    reporter.again()
    hears(heard, False, False)


def test_a_pool_that_is_away_is_told_later(
    reporter: ActivityReporter, shell: Shell, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_gpupool.kernel.activity.FIRST_PAUSE_SECONDS", 0.01)
    heard.away = True
    reporter.open(running=True)
    heard.away = False
    hears(heard, True)


def test_nothing_is_left_in_the_shell_afterwards(reporter: ActivityReporter, shell: Shell) -> None:
    reporter.open(running=True)
    reporter.close()
    assert shell.events.callbacks == {"pre_run_cell": [], "post_run_cell": []}
    alive = [it for it in threading.enumerate() if it.name == "jupyter_gpupool activity"]
    wait_for(lambda: not any(it.is_alive() for it in alive), "the thread to end")


def test_a_cell_pays_next_to_nothing(reporter: ActivityReporter, shell: Shell, heard: Heard) -> None:
    reporter.open(running=False)
    began = time.perf_counter()
    for _ in range(2000):
        shell.run()
    assert (time.perf_counter() - began) / 2000 < 0.001
