"""A kernel that is saved in one process and restored in another one.

    world = StateWorld(tmp_path)
    world.save(["x = [1]", "y = x"])
    assert world.restore("y.append(2); OK = x == [1, 2]").ok

Each process begins with an empty ``__main__`` whose dict is the namespace; ``shell=True`` gives it an IPython
shell, with In and Out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60


@dataclass(frozen=True)
class Outcome:
    """What a process said: its verdict, its report, and what it printed."""

    ok: bool
    report: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    printed: str = ""

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.report.get("findings", [])
        return found

    def paths(self, kind: str = "not_saved") -> list[str]:
        """Return the paths of findings of a kind."""
        return [finding["path"] for finding in self.findings if finding["kind"] == kind]


class StateWorld:
    """A folder with a store, and processes that work in it."""

    def __init__(self, folder: Path, *, shell: bool = False, env: dict[str, str] | None = None) -> None:
        self._folder, self._shell = folder, shell
        self._env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            **(env or {}),
        }
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def save(self, cells: list[str], **options: Any) -> Outcome:
        """Run cells in a process of their own, and save its namespace as ``it``."""
        return self._call({"verb": "save", "cells": cells, "options": options})

    def restore(self, check: str, *, before: str = "", **options: Any) -> Outcome:
        """Restore in another process, after the code in ``before``; the check sets ``OK``."""
        return self._call({"verb": "restore", "check": check, "before": before, "options": options})

    def same(self, cells: list[str], then: str, check: str, **options: Any) -> Outcome:
        """Run cells, save, run something else, and restore in the same process."""
        return self._call({"verb": "same", "cells": cells, "then": then, "check": check, "options": options})

    def _call(self, order: dict[str, Any]) -> Outcome:
        order |= {"store": str(self._folder / "store"), "shell": self._shell}
        answer = self._folder / "answer.json"
        answer.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", "from tests.support import state_world; state_world.main()", str(answer)],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd=self.work,
            env=self._env,
        )
        printed = done.stdout + done.stderr
        if not answer.exists():
            return Outcome(False, error=f"the process ended with {done.returncode}", printed=printed)
        return Outcome(printed=printed, **json.loads(answer.read_text()))


def main() -> None:
    """Do what was ordered, and leave at once, whatever threads the cells have started."""
    order = json.loads(sys.stdin.read())
    try:
        answer = _done(order)
    except Exception as error:
        answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    Path(sys.argv[1]).write_text(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


def _done(order: dict[str, Any]) -> dict[str, Any]:
    from jupyter_gpupool import state

    namespace, run = _shell() if order["shell"] else _plain()
    store = state.open_store(order["store"])
    report = None
    if order["verb"] in ("save", "same"):
        for cell in order["cells"]:
            run(cell)
        options = order["options"] if order["verb"] == "save" else {}
        report = state.capture(namespace, store=store, name="it", **options).report
    if order["verb"] in ("restore", "same"):
        run(order.get("before", "") + order.get("then", ""))
        options = order["options"]
        report = state.restore(state.Snapshot(store, store.find("it")), namespace, **options)
        exec(compile(order["check"], "<check>", "exec", dont_inherit=True), namespace)  # noqa: S102 (a cell)
    ok = order["verb"] == "save" or bool(namespace.get("OK"))
    return {"ok": ok, "report": report.as_dict() if report is not None else {}}


def _plain() -> tuple[dict[str, Any], Any]:
    import linecache
    from types import ModuleType

    main = sys.modules["__main__"] = ModuleType("__main__")
    namespace = main.__dict__

    def run(cell: str) -> None:
        name = f"<cell {len(linecache.cache)}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec", dont_inherit=True), namespace)  # noqa: S102 (a cell)

    return namespace, run


def _shell() -> tuple[dict[str, Any], Any]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)

    def run(cell: str) -> None:
        if cell:
            shell.run_cell(cell, store_history=True).raise_error()

    return shell.user_ns, run
