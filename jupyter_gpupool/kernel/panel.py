"""``gpupool.panel()``: the control panel of this process's lease.

Rule of this module: what the panel does is what the magics do, in a thread; what has to be done on the main
thread (numeric libraries count threads for each of theirs) is left for it to do when no cell runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.kernel import api
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.kernel.progress import describe
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.kernel.words import line, share_of
from jupyter_gpupool.protocol.documents import LeaseDoc

if TYPE_CHECKING:
    from jupyter_gpupool.widgets.panel import Panel, Wish


def panel() -> Panel:
    """Make a control panel: request, resize, release and scale; the last line of a cell shows it.

    Raises
    ------
    WidgetsMissing
        If ipywidgets is missing.
    GPUPoolError
        If there is no pool.
    """
    from jupyter_gpupool.widgets.errors import require_widgets

    require_widgets("The control panel")
    from jupyter_gpupool.widgets.panel import Panel

    kinds = sorted({doc.kind.value for doc in api.devices()})
    made = Panel(LeaseActions(), kinds)
    shell: Any = running_shell()
    if shell is not None:
        known = weakref.ref(made)

        def refresh(*_: object) -> None:
            if (shown := known()) is not None:
                shown.refresh()

        shell.events.register("post_run_cell", refresh)
    return made


class _PanelLine:
    """Shows a wait in a panel."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        """Say what it waits for; raises when it was cancelled."""
        text = describe(doc)
        self._say(f"{text[:1].upper()}{text[1:]}: {format_duration(elapsed_seconds)}.")

    def end(self, sentence: str) -> None:
        """Leave the last word to whoever asked."""


class LeaseActions:
    """What the buttons do to the lease of this process."""

    def held(self) -> tuple[str, int] | None:
        """Say what this process holds, as it knows itself."""
        lease = next(iter(this_process().held.values()), None)
        return None if lease is None else (share_of(lease.doc), lease.doc.compute_milli)

    def request(self, wish: Wish, say: Callable[[str], None]) -> str:
        """Ask for a lease and see it through."""
        shell: Any = running_shell()
        with _Cells(shell) as cells:
            lease = api.request_from_thread(
                wish.share,
                memory=wish.memory or None,
                kind=wish.kind or None,
                wait=wish.wait_seconds,
                line=_PanelLine(say),
                cell_runs=cells,
            )
        _on_main_thread(shell, lease.settle_threads)
        return f"Granted: {line(lease.doc)}."

    def resize(self, wish: Wish) -> str:
        """Change its size."""
        lease = this_process().only_lease().resize(wish.share, memory=wish.memory or None)
        _on_main_thread(running_shell(), lease.settle_threads)
        return "Resized."

    def release(self) -> str:
        """Give it back."""
        lease: Lease = this_process().only_lease()
        lease.release()
        return f"Released after {format_duration(lease.doc.held_seconds)}."

    def scale(self, workers: int, wish: Wish) -> str:
        """Have so many workers of the session cluster."""
        # By its name: the package stands above this one, and loads Dask.
        cluster = import_module("jupyter_gpupool.sessions.api").scale(workers, share=wish.share)
        said: str = import_module("jupyter_gpupool.sessions.words").summary(cluster)
        return said


class _Cells:
    """Knows whether a cell runs; none does when a button is pressed, since both wait for the main thread."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._running = False

    def __call__(self) -> bool:
        return self._running

    def __enter__(self) -> _Cells:
        if self._shell is not None:
            self._shell.events.register("pre_run_cell", self._starts)
            self._shell.events.register("post_run_cell", self._ends)
        return self

    def __exit__(self, *_: object) -> None:
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._starts)
            self._shell.events.unregister("post_run_cell", self._ends)

    def _starts(self, *_: object) -> None:
        self._running = True

    def _ends(self, *_: object) -> None:
        self._running = False


def _on_main_thread(shell: Any, action: Callable[[], None]) -> None:
    """Have something done on the kernel's main thread, when no cell runs there."""
    loop = getattr(getattr(shell, "kernel", None), "io_loop", None)
    if loop is not None:
        loop.add_callback(action)
