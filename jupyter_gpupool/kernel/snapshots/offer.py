"""Offers, with the first cell of a notebook, what its kernel before left behind.

Rules of this module: a kernel pays for looking whether a file is there, once; what was offered is not offered
again, but stays what a restore without a name means.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.snapshots.where import left_file, notebook


def offer(shell: Any) -> None:
    """Say what was left behind, if there is anything."""
    path = notebook(shell)
    if not path or not left_file(path).exists():
        return
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.kernel.snapshots import leftovers, words
    from jupyter_gpupool.kernel.snapshots.session import this_session

    found = leftovers.orphaned(path)
    if found is None:
        return
    try:
        session = this_session()
    except GPUPoolError as error:  # it stays, for the next kernel to offer
        tell(f"What the kernel of this notebook left behind cannot be restored yet: {error}")
        return
    session.offered = found.snapshot
    leftovers.remove(path)
    name = found.name or found.snapshot
    tell(words.offer(name, found.created_ms, found.total_bytes, found.restore_seconds))
    _get_ready_after_this_cell(shell)


def _get_ready_after_this_cell(shell: Any) -> None:
    """Import what a restore needs once this cell has ended: it will probably be the next one."""

    def ready(*_: Any) -> None:
        from jupyter_gpupool.kernel.snapshots.engine import get_ready_soon

        shell.events.unregister("post_run_cell", ready)
        get_ready_soon()

    shell.events.register("post_run_cell", ready)


def follow_configured(shell: Any) -> None:
    """Save by itself as configured."""
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.kernel.snapshots.session import this_session

    try:
        session = this_session()
        session.follow(session.policy, running=False)
    except GPUPoolError as error:
        tell(f"The state of this kernel is not saved by itself: {error}")
