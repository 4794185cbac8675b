"""``%gpupool monitor`` and ``gpupool.monitor()``: the widgets, with what this process knows.

Rule of this module: widgets are made here only, and only when somebody asks; whatever is shown live is there
as a table with its time, too, for when no kernel stands behind it any more.
"""

from __future__ import annotations

import html
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.kernel import render
from jupyter_gpupool.kernel.process import Process, this_process
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.protocol.documents import PoolDoc

if TYPE_CHECKING:
    from jupyter_gpupool.widgets.monitor import PoolMonitor
    from jupyter_gpupool.widgets.watch import Watch


def monitor(*, small: bool = False) -> PoolMonitor:
    """Make a live monitor of the pool and of this process's leases; the last line of a cell shows it.

    Parameters
    ----------
    small : bool
        One line only.

    Returns
    -------
    PoolMonitor
        A widget; ``close()`` ends it.

    Raises
    ------
    WidgetsMissing
        If anywidget or ipywidgets is missing.
    GPUPoolError
        If there is no pool.
    """
    from jupyter_gpupool.widgets.errors import require_widgets

    require_widgets("The monitor")
    from jupyter_gpupool.widgets.monitor import PoolMonitor

    process = this_process()
    return PoolMonitor(
        process.client.pool(),
        lambda: list(process.held),
        _the_watch(process),
        _static,
        served=not process.chosen,
        small=small,
    )


def _the_watch(process: Process) -> Watch:
    """Return the one watch of this process, made when it is first needed."""
    if process.watch is None:
        from jupyter_gpupool.widgets.watch import Watch

        watch = process.watch = Watch(lambda: _read(process))
        if (shell := running_shell()) is not None:
            shell.events.register("post_run_cell", lambda *_: watch.sign_of_life())  # type: ignore[attr-defined]
    found: Watch = process.watch
    return found


def _read(process: Process) -> PoolDoc:
    """Read the pool in a thread of its own, where it is now; starts none."""
    client = PoolClient(process.find(autostart=False))
    try:
        return client.pool()
    finally:
        client.close()


def _static(doc: PoolDoc, taken: datetime) -> tuple[str, str]:
    """Make what is right without a kernel: the tables, and when they were so."""
    shown = render.pool(doc, list(this_process().held))
    when = f"The pool at {taken:%Y-%m-%d %H:%M:%S} UTC"
    heading = f"<p><b>{when}</b></p>"
    return f"{when}\n{shown.text}", f"{heading}{shown.markup}"


def show_monitor(*, small: bool = False) -> None:
    """Run ``%gpupool monitor``: the widget, and what it was when it was made for readers without a kernel."""
    from IPython.display import display

    if not hasattr(running_shell(), "kernel"):  # a terminal: no page that could show a widget
        process = this_process()
        display(render.pool(process.client.pool(), list(process.held)))
        return
    shown = monitor(small=small)
    display(shown)
    display(_kept(shown), raw=True)


def _kept(shown: PoolMonitor) -> dict[str, Any]:
    """Return the state as it is now, folded: front ends do not fall back once they know the widget's type."""
    text, markup = shown.fallback
    first = text.splitlines()[0]
    style = "margin:2px 0;color:var(--jp-content-font-color2,inherit);font-size:90%"
    folded = f'<details style="{style}"><summary>{html.escape(first)}</summary>{markup}</details>'
    return {"text/plain": first, "text/html": folded}
