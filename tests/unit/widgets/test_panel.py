"""The control panel does one thing at a time, in a thread, and shows what went wrong in place."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.widgets.panel import Panel, Wish
from tests.support.waiting import wait_for


class Scripted:
    """Does what a test says."""

    def __init__(self) -> None:
        self.lease: tuple[str, int] | None = None
        self.go = threading.Event()
        self.wishes: list[Wish] = []
        self.error: Exception | None = None

    def held(self) -> tuple[str, int] | None:
        return self.lease

    def request(self, wish: Wish, say: Callable[[str], None]) -> str:
        self.wishes.append(wish)
        while not self.go.wait(0.005):
            say("Waiting for room.")
        if self.error is not None:
            raise self.error
        self.lease = ("0.25 of cpu", 250)
        return "Granted."

    def resize(self, wish: Wish) -> str:
        self.wishes.append(wish)
        return "Resized."

    def release(self) -> str:
        self.lease = None
        return "Released."

    def scale(self, workers: int, wish: Wish) -> str:
        return f"{workers} workers."


@pytest.fixture
def actions() -> Scripted:
    return Scripted()


@pytest.fixture
def panel(actions: Scripted):
    made = Panel(actions, ["cpu", "cuda"], settle_seconds=0.0)
    yield made
    actions.go.set()
    wait_for(lambda: not made.busy, "nothing is left of it")
    made.close()


def done(panel: Panel) -> None:
    wait_for(lambda: not panel.busy and panel.cancel.disabled, "it is done")


def test_a_request_waits_in_a_thread_and_everything_but_cancel_is_disabled(panel: Panel, actions: Scripted):
    assert not panel.request.disabled
    assert panel.release.disabled
    panel.share.value, panel.memory.value, panel.kind.value = 0.5, " 2GiB ", "cuda"
    panel.request.click()
    wait_for(lambda: "Waiting for room." in panel.status.value, "the wait is shown")
    assert panel.request.disabled
    assert panel.share.disabled
    assert not panel.cancel.disabled
    panel.request.click()  # does nothing
    actions.go.set()
    done(panel)
    assert actions.wishes == [Wish(share="0.5", memory="2GiB", kind="cuda", wait_seconds=60.0)]
    assert "Granted. This notebook has 0.25 of cpu." in panel.status.value
    assert panel.request.disabled
    assert not panel.release.disabled
    panel.resize.click()
    done(panel)
    panel.release.click()
    done(panel)
    assert "Released. This notebook has no lease." in panel.status.value


def test_cancel_ends_a_wait(panel: Panel):
    panel.request.click()
    wait_for(lambda: "Waiting" in panel.status.value, "it waits")
    panel.cancel.click()
    done(panel)
    assert "was cancelled; nothing is held or waits." in panel.status.value
    assert not panel.request.disabled


@pytest.mark.parametrize("error", [GPUPoolError("Too <much>."), ZeroDivisionError("by zero")])
def test_what_goes_wrong_is_shown_in_the_panel(panel: Panel, actions: Scripted, error: Exception):
    actions.error = error
    actions.go.set()
    panel.request.click()
    done(panel)
    assert 'role="alert"' in panel.status.value
    assert "<much>" not in panel.status.value
    assert ("Too &lt;much&gt;." in panel.status.value) or ("by zero" in panel.status.value)


def test_workers_are_scaled_and_changes_from_elsewhere_are_shown(panel: Panel, actions: Scripted):
    panel.workers.value = 3
    panel.scale.click()
    done(panel)
    assert "3 workers." in panel.status.value
    actions.lease = ("all of cuda0", 1000)
    panel.refresh()
    assert "This notebook has all of cuda0." in panel.status.value
    assert not panel.release.disabled


def test_a_click_waits_for_the_values_that_the_page_still_holds_back(actions: Scripted):
    panel = Panel(actions, ["cpu"], settle_seconds=60.0)
    panel.workers.value = 1
    panel.scale.click()
    assert panel.busy
    panel.workers.value = 2  # comes after the click, as a page sends it that still waited for the first one
    settled = panel._settled
    settled.answer.value = settled.question.value  # what the page does of itself
    done(panel)
    assert "2 workers." in panel.status.value
    panel.close()
