"""Snapshots under the runner that measures other tools: its protocol, on the functions that the magics call.

    python state_adapter.py save DIRECTORY CELLS.json        run cells in a fresh shell, then checkpoint
    python state_adapter.py restore DIRECTORY CHECK.py       restore in a fresh process, then run the check
    python state_adapter.py same DIRECTORY CELLS.json CHECK.py   both in one shell, names deleted in between
    python state_adapter.py bench DIRECTORY PLAN.json        cells and checkpoints by turns, with their cost

The last line printed is the verdict: SAVED, OK, REPORTED(names), WRONG, or ERROR and why.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "bench"
#: What IPython itself has in a namespace.
_HISTORY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_exit_code|In|Out|__builtins?__")


def new_shell(directory: Path) -> Any:
    """Make a shell as a kernel has it, whose snapshots and history lie in a directory."""
    os.environ["JUPYTER_GPUPOOL_DATA_DIR"] = str(directory / "snapshots")
    os.environ["JUPYTER_GPUPOOL_RUNTIME_DIR"] = str(directory / "run")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.extension_manager.load_extension("jupyter_gpupool")
    return shell


def get_ready() -> None:
    """Import ours before a clock starts, as the runner does with every tool; a kernel does it in a thread."""
    from jupyter_gpupool.kernel.snapshots import engine

    engine.get_ready()


def run_cells(shell: Any, cells: Sequence[str]) -> None:
    """Run cells as a notebook does; one that raises does not stop the next."""
    for cell in cells:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            shell.run_cell(cell, store_history=True)


def checkpoint() -> Any:
    """Save the namespace."""
    import jupyter_gpupool as gpupool

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return gpupool.checkpoint(NAME)


def restore() -> list[str]:
    """Put the namespace back; returns the variables that were told not to be what they were."""
    import jupyter_gpupool as gpupool
    from jupyter_gpupool.state.model import FindingKind

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        report = gpupool.restore(NAME)
    told = (FindingKind.NOT_SAVED, FindingKind.CHANGED)
    return sorted({it.variable for it in report.findings if it.kind in told and it.variable.isidentifier()})


def verdict(shell: Any, check: str, reported: Sequence[str]) -> str:
    """Run a check in the namespace."""
    shell.user_ns.pop("OK", None)
    try:
        exec(compile(check, "<check>", "exec"), shell.user_ns)  # noqa: S102 - the protocol's own check
        result = "OK" if shell.user_ns.get("OK") else "WRONG"
    except Exception as error:  # whatever the check raises is the verdict
        result = f"ERROR check: {described(error)}"
    return f"REPORTED({','.join(reported)})" if result != "OK" and reported else result


def described(error: BaseException) -> str:
    """Describe an error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:160]


def size_of(directory: Path) -> int:
    """Sum the files below a directory, bytes."""
    return sum(it.stat().st_size for it in directory.rglob("*") if it.is_file())


def bench(shell: Any, directory: Path, plan: Path) -> str:
    """Run a plan of cells and saves; print what each save cost."""
    get_ready()
    for step, text in json.loads(plan.read_text("utf-8")):
        if step == "cell":
            run_cells(shell, [text])
            continue
        before = size_of(directory)
        start = time.perf_counter()
        checkpoint()
        seconds = time.perf_counter() - start
        print("TIME", text, seconds, size_of(directory) - before)
    return "SAVED"


def save(shell: Any, cells: Path) -> str:
    """Run cells, and save."""
    run_cells(shell, json.loads(cells.read_text("utf-8")))
    checkpoint()
    return "SAVED"


def same(shell: Any, cells: Path, check: Path) -> str:
    """Save, delete what the user made, restore, and check, in one shell."""
    initial = dict(shell.user_ns)
    save(shell, cells)
    for name in [it for it in shell.user_ns if it not in initial and not _HISTORY.fullmatch(it)]:
        del shell.user_ns[name]
    return verdict(shell, check.read_text("utf-8"), restore())


def restored(shell: Any, check: Path, before: Path | None) -> str:
    """Restore in this fresh process, and check."""
    if before is not None:
        exec(before.read_text("utf-8"), {})  # noqa: S102 - imports that the clock leaves out
    get_ready()
    start = time.perf_counter()
    reported = restore()
    print("TIME load", time.perf_counter() - start, 0)
    return verdict(shell, check.read_text("utf-8"), reported)


def main(verb: str, directory: str, *files: str) -> str:
    """Do one call of the protocol; returns the verdict."""
    where, paths = Path(directory).resolve(), [Path(it).resolve() for it in files]
    shell = new_shell(where)
    match verb:
        case "save":
            return save(shell, paths[0])
        case "bench":
            return bench(shell, where, paths[0])
        case "same":
            return same(shell, *paths)
        case "restore":
            return restored(shell, paths[0], paths[1] if len(paths) > 1 else None)
    return f"ERROR {verb}: no such verb"


if __name__ == "__main__":
    try:
        said = main(*sys.argv[1:])
    except Exception as error:  # the runner reads it
        said = f"ERROR {'load' if sys.argv[1] == 'restore' else 'save'}: {described(error)}"
    print(said, flush=True)
    os._exit(0)  # whatever threads the cells have started
