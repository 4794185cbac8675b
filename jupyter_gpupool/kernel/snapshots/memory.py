"""What the shell remembers, as the engine saves it: what was typed, what came out, which cell it is.

Rule of this module: cells are numbered upwards only, whatever is restored, because their number is their
place in the history that IPython keeps on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.process.history import History


def history(shell: Any | None) -> History | None:
    """Return the memory of a shell; None where there is none."""
    manager = getattr(shell, "history_manager", None)
    if shell is None or manager is None or "_oh" not in shell.user_ns:
        return None
    from jupyter_gpupool.state.process.history import History

    lists: dict[str, list[Any]] = {
        "In": manager.input_hist_parsed,
        "raw": manager.input_hist_raw,
        "_dh": manager.dir_hist,
    }
    numbered = {name: list(lists[name]) for name in ("In", "raw")}

    def set_count(number: int) -> None:
        for name, before in numbered.items():  # what was typed since stays, under its numbers
            lists[name].extend(before[len(lists[name]) :])
        shell.execution_count = max(number, shell.execution_count)

    return History(
        inputs=lists,
        outputs=shell.user_ns["_oh"],
        names=shell.user_ns,
        hidden=shell.user_ns_hidden,
        latest=shell.displayhook,
        count=lambda: int(shell.execution_count),
        set_count=set_count,
    )
