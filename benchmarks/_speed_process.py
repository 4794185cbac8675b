"""One process of state_speed.py: makes a state and saves it three times, or loads it.

Run as a script with the tool, the state, "save" or "load", a folder, and "full" or "quick"; prints one line
of JSON with seconds and bytes.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class State:
    """One kind of state.

    Attributes
    ----------
    needs : tuple of str
        Libraries.
    imports, make, change, check : str
        Cells: what is imported, what makes it (of size N), what changes one element, and a condition that
        holds after that.
    full, quick : int
        N.
    """

    needs: tuple[str, ...] = ()
    imports: str
    make: str
    change: str
    check: str
    full: int
    quick: int


_WORDS = "np.array(['alpha', 'beta', 'gamma', 'delta'], dtype=object)"


def _frame(more: str) -> State:
    """Describe a frame with these columns, too."""
    columns = f"'a': rng.integers(0, 1000, N), 'b': rng.standard_normal(N), {more}"
    return State(
        needs=("pandas",),
        imports="import numpy as np, pandas as pd",
        make=f"rng = np.random.default_rng(0)\nx = pd.DataFrame({{{columns}}})",
        change="x.iloc[77, 1] = 3.0",
        check="x.iloc[77, 1] == 3 and len(x) == N",
        full=5_000_000,
        quick=500_000,
    )


STATES = {
    "numpy, 500 MB": State(
        needs=("numpy",),
        imports="import numpy as np",
        make="x = np.random.default_rng(0).standard_normal(N)",
        change="x[123] = 7.0",
        check="x[123] == 7 and len(x) == N",
        full=62_500_000,
        quick=8_000_000,
    ),
    "frame of 5e6 rows": _frame("'c': rng.standard_normal(N), 'd': rng.integers(0, 2, N).astype(bool)"),
    "frame with strings": _frame(f"'s': rng.choice({_WORDS}, N)"),
    "torch model + AdamW": State(
        needs=("torch",),
        imports="import torch",
        make="torch.manual_seed(0)\n"
        "x = torch.nn.Sequential(*[torch.nn.Linear(N, N) for _ in range(12)])\n"
        "opt = torch.optim.AdamW(x.parameters())\n"
        "x(torch.randn(4, N)).sum().backward()\nopt.step()",
        change="x[0].bias.data[0] = 7.0",
        check="x[0].bias[0] == 7 and opt.param_groups[0]['params'][0] is x[0].weight",
        full=2048,
        quick=512,
    ),
    "2,000 small variables": State(
        imports="pass",
        make="for n in range(N):\n    globals()[f'v{n}'] = {'id': n, 'name': f'n{n}', 'vals': [n, n + 1]}",
        change="v7['vals'].append(5)",
        check="v7['vals'] == [7, 8, 5] and v1999['id'] == 1999",
        full=2000,
        quick=2000,
    ),
}


class _Ours:
    """Our snapshots, by the functions that the magics call."""

    def __init__(self, folder: Path) -> None:
        from state_adapter import get_ready, new_shell

        self.folder, self.shell, self._known = folder, new_shell(folder), 0
        self.ready = _timed(get_ready)
        self.namespace: dict[str, Any] = self.shell.user_ns

    def run(self, cell: str) -> None:
        self.shell.run_cell(cell).raise_error()

    def save(self) -> None:
        from state_adapter import checkpoint

        checkpoint()

    def written(self) -> int:
        """Return how much was written since this was asked last, bytes."""
        from state_adapter import size_of

        before, self._known = self._known, size_of(self.folder)
        return self._known - before

    def load(self) -> None:
        from state_adapter import restore

        restore()


class _File:
    """One file that is written whole, and synced."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "saved"
        self.namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(self, cell: str) -> None:
        exec(cell, self.namespace)  # noqa: S102 - our own text

    def save(self) -> None:
        left_out = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
        items = self.namespace.items()
        kept = {key: it for key, it in items if key[:2] != "__" and not isinstance(it, left_out)}
        with self.path.open("wb") as file:
            self.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())

    def written(self) -> int:
        """Return how much the last save wrote, bytes."""
        return self.path.stat().st_size

    def load(self) -> None:
        with self.path.open("rb") as file:
            self.namespace.update(self.read(file))

    def dump(self, kept: dict[str, Any], file: Any) -> None:
        pickle.dump(kept, file, 5)

    def read(self, file: Any) -> dict[str, Any]:
        found: dict[str, Any] = pickle.load(file)  # noqa: S301 - ours
        return found


class _Torch(_File):
    """What torch itself writes."""

    def dump(self, kept: dict[str, Any], file: Any) -> None:
        import torch

        torch.save(kept, file)

    def read(self, file: Any) -> dict[str, Any]:
        import torch

        found: dict[str, Any] = torch.load(file, weights_only=False)
        return found


class _Nothing(_Ours):
    """The cells alone, in the same shell: what memory they take."""

    def save(self) -> None:
        """Save nothing."""

    def written(self) -> int:
        """Return how much that was, bytes."""
        return 0


TOOLS: dict[str, Callable[[Path], Any]] = {
    "gpupool": _Ours,
    "pickle": _File,
    "torch": _Torch,
    "none": _Nothing,
}


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _disk(folder: Path, nbytes: int) -> float:
    """Write as much as that in pieces of 4 MiB, and sync; return how long that took, seconds."""
    piece, path = memoryview(os.urandom(4 << 20)), folder / "limit"
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for at in range(0, nbytes, len(piece)):
            file.write(piece[: nbytes - at])
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def save(tool: Any, state: State, size: int, folder: Path) -> dict[str, float]:
    """Make a state, and save it three times."""
    found: dict[str, float] = {}
    tool.run(state.imports)
    tool.namespace["N"] = size
    for stage, cell in (("first", state.make), ("unchanged", "len('')"), ("changed", state.change)):
        tool.run(cell)
        found[stage], found[f"{stage}_bytes"] = _timed(tool.save), tool.written()
    found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if type(tool) is _File:  # the others are compared with it
        found["disk"] = _disk(folder, int(found["first_bytes"]))
    return found


def load(tool: Any, state: State) -> dict[str, float]:
    """Load a state, and once more."""
    exec(state.imports, {})  # noqa: S102 - our own text
    found: dict[str, float] = {}
    for stage in ("load", "load_again"):
        for name in [it for it in ("x", "opt") if it in tool.namespace]:
            del tool.namespace[name]
        gc.collect()
        found[stage] = _timed(tool.load)
    if not eval(state.check, tool.namespace):  # noqa: S307 - our own text
        raise SystemExit("what was loaded is not what was saved")
    return found


def main() -> None:
    """Do one half of the work of one tool."""
    name, kind, verb, where, size = sys.argv[1:6]
    state, folder = STATES[kind], Path(where)
    tool = TOOLS[name](folder)
    count = state.quick if size == "quick" else state.full
    found = save(tool, state, count, folder) if verb == "save" else load(tool, state)
    found["ready"] = getattr(tool, "ready", 0.0)
    print("GPUPOOL", json.dumps(found), flush=True)
    os._exit(0)  # nothing that a shell does at its end is measured


if __name__ == "__main__":
    main()
