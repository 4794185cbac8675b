"""What is done with the next cell that somebody runs, once.

Rule of this module: every kernel loads it as it starts, so it imports nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def with_next_cell(shell: Any, work: Callable[[Any], object]) -> None:
    """Do something before the next cell.

    Parameters
    ----------
    shell : InteractiveShell
        The notebook's.
    work : callable
        Given what IPython knows of the cell. A cell that is not kept in the history is a front end's, which
        prepares the kernel, perhaps before that knows its notebook: it is not the next one.
    """

    def once(info: Any = None) -> None:
        if getattr(info, "store_history", True):
            shell.events.unregister("pre_run_cell", once)
            work(info)

    shell.events.register("pre_run_cell", once)
