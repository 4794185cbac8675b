"""The control panel: request, resize, release and scale by sliders.

Rules of this module: nothing that it does holds up the kernel; while something is done everything but Cancel
is disabled; whatever went wrong is said in the panel, in the words in which it was refused; what is done is
done with the values that the page showed at the click.
"""

from __future__ import annotations

import contextvars
import html
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ipywidgets as controls

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute

#: What can be chosen to wait: how it is called, and seconds (None: for ever).
_WAITS = (("not at all", 0.0), ("1 min", 60.0), ("10 min", 600.0), ("1 hour", 3600.0), ("for ever", None))
#: Most workers that the slider offers.
_MOST_WORKERS = 8
#: Longest wait for the values that a page still holds back, before those known are taken.
_SETTLE_SECONDS = 2.0
_NARROW, _WIDE = {"description_width": "70px"}, "360px"


class Cancelled(GPUPoolError):
    """Raised inside a wait when its Cancel button was pressed. Nothing is held or waits then."""

    code = "cancelled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the sliders say.

    Attributes
    ----------
    share : str
        Part of a device.
    memory : str
        How much of its memory; empty for the same fraction.
    kind : str
        Kind of device; empty for any.
    wait_seconds : float or None
        How long to wait for room; None for ever.
    """

    share: str
    memory: str
    kind: str
    wait_seconds: float | None


class Actions(Protocol):
    """What a panel can do; every call but `held` may take long, and is made in a thread."""

    def held(self) -> tuple[str, int] | None:
        """Say what lease this process holds, and its share in thousandths; None without one."""

    def request(self, wish: Wish, say: Callable[[str], None]) -> str:
        """Ask for a lease and see it through; ``say`` may raise to cancel. Returns how it ended."""

    def resize(self, wish: Wish) -> str:
        """Change its size."""

    def release(self) -> str:
        """Give it back."""

    def scale(self, workers: int, wish: Wish) -> str:
        """Have so many Dask workers."""


class Panel(controls.VBox):  # type: ignore[misc]
    """A control panel for the lease of one process.

    Parameters
    ----------
    actions : Actions
        What its buttons do.
    kinds : sequence of str
        Kinds of device that the pool has.
    settle_seconds : float
        How long to wait, at most, for a page to say what its sliders showed at a click.
    """

    def __init__(
        self, actions: Actions, kinds: list[str], *, settle_seconds: float = _SETTLE_SECONDS
    ) -> None:
        self._actions = actions
        self._settled = _Settled(settle_seconds)
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        wide = controls.Layout(width=_WIDE)
        self.share = controls.FloatSlider(
            value=0.25, min=0.05, max=1.0, step=0.05, description="Share", style=_NARROW, layout=wide
        )
        self.memory = controls.Text(
            placeholder="the same fraction, or 8GiB", description="Memory", style=_NARROW, layout=wide
        )
        self.kind = controls.Dropdown(
            options=[("any", ""), *((kind, kind) for kind in kinds)],
            description="Device",
            style=_NARROW,
            layout=wide,
        )
        self.wait = controls.Dropdown(
            options=_WAITS, value=60.0, description="Wait", style=_NARROW, layout=wide
        )
        self.workers = controls.IntSlider(
            value=0, min=0, max=_MOST_WORKERS, description="Workers", style=_NARROW, layout=wide
        )
        self.status = controls.HTML()
        self.request = self._button("Request", "primary", self._request)
        self.resize = self._button("Resize", "", lambda: actions.resize(self.wish))
        self.release = self._button("Release", "", actions.release)
        self.scale = self._button("Scale", "", lambda: actions.scale(self.workers.value, self.wish))
        self.cancel = controls.Button(description="Cancel", button_style="warning")
        self.cancel.on_click(lambda _: self._cancelled.set())
        super().__init__(
            [
                *(self.share, self.memory, self.kind, self.wait),
                controls.HBox([self.request, self.resize, self.release, self.cancel]),
                controls.HBox([self.workers, self.scale]),
                self.status,
            ]
        )
        self._rest("")

    @property
    def wish(self) -> Wish:
        """What the sliders say now."""
        return Wish(
            share=format_compute(round(WHOLE_MILLI * self.share.value)),
            memory=self.memory.value.strip(),
            kind=self.kind.value,
            wait_seconds=self.wait.value,
        )

    @property
    def busy(self) -> bool:
        """Whether something is being done."""
        return self._thread is not None

    def _button(self, word: str, style: str, action: Callable[[], str]) -> Any:
        button = controls.Button(description=word, button_style=style)
        button.on_click(lambda _: self._begin(action))
        return button

    def _request(self) -> str:
        return self._actions.request(self.wish, self._tell)

    def _tell(self, sentence: str) -> None:
        """Show how a wait goes; the Cancel button ends it here."""
        if self._cancelled.is_set():
            raise Cancelled("The request was cancelled; nothing is held or waits.")
        self._say(sentence)

    def _begin(self, action: Callable[[], str]) -> None:
        """Do something in a thread; a second click meanwhile does nothing."""
        if self._thread is not None:
            return
        self._cancelled.clear()
        self._enable(busy=True)
        self._say("Asking …")
        self._settled.ask()
        # an empty context: what is said meanwhile belongs to no cell
        run = contextvars.Context().run
        self._thread = threading.Thread(
            target=run, args=(self._work, action), name="jupyter_gpupool panel", daemon=True
        )
        self._thread.start()

    def _work(self, action: Callable[[], str]) -> None:
        self._settled.wait()
        try:
            said, failed = action(), False
        except Exception as error:  # whatever it is is shown here: a thread's traceback would reach nobody
            said, failed = str(error) or type(error).__name__, True
        self._thread = None
        self._rest(said, failed=failed)

    def _rest(self, said: str, *, failed: bool = False) -> None:
        """Show how it stands, with the buttons that make sense now."""
        self._enable(busy=False)
        held = self._actions.held()
        now = f"This notebook has {held[0]}." if held else "This notebook has no lease."
        self._say(" ".join(part for part in (said, now) if part), failed=failed)

    def _enable(self, *, busy: bool) -> None:
        held = self._actions.held() is not None
        for control in (self.share, self.memory, self.kind, self.wait, self.workers, self.scale):
            control.disabled = busy
        self.request.disabled = busy or held
        self.resize.disabled = self.release.disabled = busy or not held
        self.cancel.disabled = not busy

    def _say(self, sentence: str, *, failed: bool = False) -> None:
        colour = "var(--jp-error-color1,#d32f2f)" if failed else "var(--jp-ui-font-color1,inherit)"
        role = "alert" if failed else "status"
        self.status.value = (
            f'<div role="{role}" aria-live="polite" style="color:{colour};white-space:normal;'
            f'max-width:560px;line-height:1.4">{html.escape(sentence)}</div>'
        )

    def refresh(self) -> None:
        """Show how it stands now, for changes that were made elsewhere; not while something is done."""
        if self._thread is None:
            self._rest("")


class _Settled:
    """Knows when a page has sent all that it held back.

    A page sends one change of a control and keeps the next ones until the kernel has handled it, but a click
    at once: it may overtake what its sliders show. So the page is asked to copy a number from one hidden
    control to another. What it sends comes in order, so when the copy arrives everything before it has.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._arrived = threading.Event()
        self.question = controls.IntText()
        self.answer = controls.IntText()
        self._link = controls.jsdlink((self.question, "value"), (self.answer, "value"))
        self.answer.observe(self._hear, "value")

    def ask(self) -> None:
        """Have the page answer after what it holds back; in the thread that handles its messages."""
        self._arrived.clear()
        self.question.value += 1

    def wait(self) -> None:
        """Wait for the answer; a page that is gone, or a kernel that computes, gives none in time."""
        self._arrived.wait(self._seconds)

    def _hear(self, change: dict[str, Any]) -> None:
        if change["new"] == self.question.value:
            self._arrived.set()
