"""What the user's own modules hold is said not to be saved; what is done at signals comes back."""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpupool.state.model import Finding, FindingKind
from jupyter_gpupool.state.process import modules, signals
from tests.support.state_world import StateWorld

SOURCE = """
import json
from collections import *
COUNTER = 0
CACHE: dict[str, int] = {}
PARTS = [1, 2]
COMPUTED = len(PARTS)
ONCE = TWICE = None
for step in range(3):
    pass
def count():
    global COUNTER
    COUNTER += 1
    CACHE["n"] = COUNTER
class Model:
    weights = None
"""


@pytest.fixture
def utils(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "users_utils.py").write_text(SOURCE.replace("from collections import *\n", ""))
    (tmp_path / "users_deep.py").write_text("import users_utils\nSTATE = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("users_utils", "users_deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("users_utils")


def said(namespace: dict[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    section = modules.section(namespace)
    section.put(section.take(found.append), found.append)()
    return found


def test_a_module_that_is_as_its_file_says_is_not_spoken_of(utils: ModuleType) -> None:
    assert said({"utils": utils, "x": 1, "np": json_module()}) == []


def json_module() -> ModuleType:
    return importlib.import_module("json")


def test_state_in_a_module_is_named_with_what_to_do(utils: ModuleType) -> None:
    utils.count()
    utils.added = object()  # type: ignore[attr-defined]
    (found,) = said({"utils": utils})
    assert (found.kind, found.variable, found.path) == (FindingKind.NOT_SAVED, "(modules)", "users_utils")
    assert found.reason == "it has state that is not saved: CACHE, COUNTER, added"
    assert found.hint.startswith("A fresh kernel imports it as its file says")


def test_a_module_counts_that_only_a_function_or_another_module_leads_to(utils: ModuleType) -> None:
    utils.PARTS.append(3)
    assert [it.path for it in said({"count": utils.count})] == ["users_utils"]
    assert [it.path for it in said({"model": utils.Model()})] == ["users_utils"]
    assert [it.path for it in said({"deep": importlib.import_module("users_deep")})] == ["users_utils"]
    assert said({"x": 1}) == []


def test_values_that_cannot_be_compared_count_as_changed(utils: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")
    utils.CACHE["weights"] = numpy.ones(3)
    utils.PARTS[0] = numpy.ones(3)
    assert "CACHE, PARTS" in said({"utils": utils})[0].reason


def test_a_file_that_imports_everything_or_is_gone_accuses_nobody(utils: ModuleType) -> None:
    file = Path(str(utils.__file__))
    utils.added = 1  # type: ignore[attr-defined]
    file.write_text(SOURCE)
    assert said({"utils": utils}) == []
    file.unlink()
    assert said({"utils": utils}) == []


def test_a_file_that_is_too_deep_to_be_read_hides_no_other(utils: ModuleType, tmp_path: Path) -> None:
    deep = tmp_path / "users_sum.py"
    deep.write_text("TOTAL = " + " + ".join(["1"] * 1500))
    assert modules._read(str(deep)) is None
    utils.count()
    assert [it.path for it in said({"utils": utils})] == ["users_utils"]


def test_a_function_of_the_notebook_in_a_module_is_named(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    (world.work / "tools.py").write_text("def f():\n    return 1\n")
    cells = ["import sys; sys.path.insert(0, '.')", "import tools", "def g():\n    return 2\ntools.f = g"]
    assert world.save(cells).paths() == ["tools"]
    assert world.restore("OK = tools.f() == 1").paths() == ["tools"]


CELLS = """
import signal
seen = []
def note(number, frame):
    seen.append(number)
class Box:
    def hear(self, number, frame):
        seen.append(self)
box = Box()
signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGUSR2, box.hear)
"""


def test_functions_of_the_notebook_are_called_at_signals_again(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    world.save([CELLS])
    done = world.restore(
        "signal.raise_signal(signal.SIGUSR1); signal.raise_signal(signal.SIGUSR2)\n"
        "OK = seen == [signal.SIGUSR1, box] and signal.getsignal(signal.SIGUSR1) is note"
    )
    assert done.ok, done
    assert not done.findings


def test_a_signal_without_a_name_costs_the_others_nothing(tmp_path: Path) -> None:
    world = StateWorld(tmp_path)
    real = CELLS + "\nsignal.signal(signal.SIGRTMIN + 2, note)"
    assert not world.save([real]).findings
    done = world.restore(
        "signal.raise_signal(signal.SIGRTMIN + 2)\n"
        "OK = len(seen) == 1 and signal.getsignal(signal.SIGUSR1) is note"
    )
    assert done.ok, done
    assert not done.findings


def test_what_was_done_at_a_signal_can_be_taken_back_and_what_others_set_stays() -> None:
    def theirs(number: int, frame: object) -> None:
        raise AssertionError

    def ours(number: int, frame: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGUSR1, theirs)
    try:
        assert "SIGUSR1" not in signals.SECTION.take(print)
        undo = signals.SECTION.put({"SIGUSR1": ours}, print)
        assert signal.getsignal(signal.SIGUSR1) is ours
        undo()
        assert signal.getsignal(signal.SIGUSR1) is theirs
        found: list[Finding] = []
        signals.SECTION.put({"SIGNOTHERE": ours}, found.append)
        signals.SECTION.put({"4711": ours}, found.append)
        assert [it.path for it in found] == ["signal.SIGNOTHERE", "signal.4711"]
    finally:
        signal.signal(signal.SIGUSR1, before)
