"""A kernel that has moved to another node has its variables again with its first cell.

Rules of this module: every kernel that has moved loads it as it starts, so it imports little; what was saved
for the move is forgotten once it is back, and not before.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.kernel.notices import tell

#: Value of the variable that says that this process is the first one after a move.
FIRST = "1"


def snapshot_name(shell: Any) -> str:
    """Return how the state of a kernel is called that moves."""
    from jupyter_gpupool.kernel.snapshots.where import MOVE_PREFIX, kernel_id

    return f"{MOVE_PREFIX}{kernel_id(shell)}"


def bring_back(shell: Any, moved: str) -> None:
    """Restore what was saved for the move of this kernel, and say what came back.

    Parameters
    ----------
    shell : InteractiveShell
        The notebook's.
    moved : str
        `FIRST`, or anything else for a process that was started after that: what was brought back then is
        not missed.
    """
    from jupyter_gpupool.core.errors import GPUPoolError
    from jupyter_gpupool.kernel.scaled import put_down
    from jupyter_gpupool.kernel.snapshots import api, leftovers
    from jupyter_gpupool.kernel.snapshots.where import notebook
    from jupyter_gpupool.state.errors import NoSuchSnapshot

    name = snapshot_name(shell)
    try:
        restored = api.restore(name)
    except NoSuchSnapshot as error:
        if moved == FIRST:
            tell(f"This kernel has moved here, and what was saved for that is not to be found here: {error}")
        return
    except (GPUPoolError, OSError, KeyboardInterrupt) as error:
        why = str(error) or "It was stopped."
        again = f"`%gpupool restore {name}` tries again."
        tell(f"This kernel has moved here, and its state is not back: {why} {again}")
        return
    put_down(shell)
    tell(f"This kernel has moved here. {restored.rendering().text}")
    leftovers.remove(notebook(shell))  # which was said for the case that the kernel does not come back
    try:
        api.forget(name)
    except (GPUPoolError, OSError) as error:
        tell(f"What was saved for the move is still there: {error}")
