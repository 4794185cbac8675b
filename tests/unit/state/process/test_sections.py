"""What a process is besides its variables is put back, and can be taken back."""

from __future__ import annotations

import decimal
import logging
import os
import random
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.model import Finding, FindingKind
from jupyter_gpupool.state.process import (
    cautions,
    chance,
    conversions,
    environment,
    history,
    logs,
    options,
    whereabouts,
)
from jupyter_gpupool.state.process.assemble import sections
from jupyter_gpupool.state.process.section import Section
from tests.support.state_trip import trip


class Desk:
    """Saves and puts back single sections, and takes all back in the end."""

    def __init__(self, stack: ExitStack) -> None:
        self.findings: list[Finding] = []
        self._stack = stack

    def take(self, section: Section) -> Any:
        return trip(section.take(self.findings.append))

    def put(self, section: Section, value: Any) -> Any:
        undo = section.put(value, self.findings.append)
        once = self._stack.enter_context(ExitStack())
        once.callback(undo)
        return once.close


@pytest.fixture
def desk() -> Iterator[Desk]:
    with ExitStack() as stack:
        for section in sections():
            stack.callback(section.put(section.take(lambda _: None), lambda _: None))
        yield Desk(stack)


def test_the_sections_that_others_need_come_first() -> None:
    firsts = [section.first for section in sections()]
    assert firsts == sorted(firsts, reverse=True)
    assert len({section.name for section in sections()}) == len(firsts)


def _goes_on(desk: Desk, draw: Callable[[], Any]) -> None:
    value = desk.take(chance.SECTION)
    first = draw()
    later = chance.SECTION.take(lambda _: None)
    second = draw()
    desk.put(chance.SECTION, later)
    undo = desk.put(chance.SECTION, value)
    assert draw() == first
    undo()
    assert draw() == second


def test_streams_of_random_numbers_go_on_and_can_be_taken_back(desk: Desk) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.random.standard_normal()  # half of a pair is kept for the next one
    _goes_on(desk, lambda: [random.random(), numpy.random.random(), numpy.random.standard_normal()])


@pytest.mark.slow
def test_the_stream_of_torch_goes_on_and_can_be_taken_back(desk: Desk) -> None:
    torch = pytest.importorskip("torch")
    _goes_on(desk, lambda: torch.rand(2).tolist())


def test_only_what_was_changed_of_the_environment_is_saved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYX", "1")
    monkeypatch.delenv("PATH")
    value = desk.take(environment.section())
    monkeypatch.setenv("MYX", "2")
    monkeypatch.setenv("PATH", "/bin")
    undo = desk.put(environment.section(), value)
    assert os.environ["MYX"] == "1"
    assert "PATH" not in os.environ
    undo()
    assert (os.environ["MYX"], os.environ["PATH"]) == ("2", "/bin")


@pytest.mark.parametrize(
    "name",
    ["JUPYTER_X", "JPY_PARENT_PID", "CUDA_VISIBLE_DEVICES", "NVIDIA_X", "https_proxy", "OMP_NUM_THREADS"],
)
def test_what_belongs_to_the_machine_is_neither_saved_nor_put_back(
    name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "old")
    value = desk.take(environment.section())
    assert name not in value["set"]
    monkeypatch.setenv(name, "new")
    desk.put(environment.section(), {"set": {name: "forged"}, "removed": [name]})
    assert os.environ[name] == "new"
    assert not [finding for finding in desk.findings if name in finding.path]


def test_secrets_of_the_environment_are_left_out_and_listed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "k-value")
    monkeypatch.setenv("DATABASE", "postgres://me:word@host/db")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    value = desk.take(environment.section())
    assert "TOKENIZERS_PARALLELISM" in value["set"]
    assert not {"MY_API_KEY", "DATABASE"} & set(value["set"])
    left_out = {finding.path for finding in desk.findings if finding.kind is FindingKind.LEFT_OUT}
    assert {"os.environ['MY_API_KEY']", "os.environ['DATABASE']"} <= left_out
    assert "k-value" not in str(desk.findings)


def test_the_directory_is_changed_to_where_it_is_there(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    value = desk.take(whereabouts.DIRECTORY)
    monkeypatch.chdir(tmp_path)
    undo = desk.put(whereabouts.DIRECTORY, value)
    assert Path.cwd() == tmp_path / "sub"
    undo()
    assert Path.cwd() == tmp_path
    desk.put(whereabouts.DIRECTORY, str(tmp_path / "gone"))
    assert Path.cwd() == tmp_path
    assert f"there is no directory {tmp_path / 'gone'} here" in desk.findings[-1].reason


@pytest.fixture
def umask() -> Iterator[int]:
    """Give what this process has, and have it back after everything else."""
    begun = os.umask(0o022)
    os.umask(begun)
    yield begun
    os.umask(begun)


def test_who_may_read_new_files_is_kept_where_the_user_changed_it(umask: int, desk: Desk) -> None:
    assert desk.take(whereabouts.UMASK) is None, "a machine's own is not carried to another"
    os.umask(umask ^ 0o070)
    value = desk.take(whereabouts.UMASK)
    os.umask(umask)
    undo = desk.put(whereabouts.UMASK, value)
    assert os.umask(umask) == umask ^ 0o070
    os.umask(umask ^ 0o070)
    undo()
    assert os.umask(umask) == umask
    os.umask(umask ^ 0o007)
    desk.put(whereabouts.UMASK, None)
    assert os.umask(umask) == umask, "what was changed after the save is taken back"


def test_entries_of_the_path_come_back_and_none_is_taken_away(desk: Desk) -> None:
    before = list(sys.path)
    sys.path.insert(0, "/first")
    sys.path.append("/zzz")
    value = desk.take(whereabouts.PATH)
    sys.path[:] = [*before, "/here/only"]
    path = sys.path
    undo = desk.put(whereabouts.PATH, value)
    assert sys.path == ["/first", *before, "/zzz", "/here/only"]
    undo()
    assert path is sys.path
    sys.path[:] = before


def test_the_path_of_another_python_is_not_taken_over(desk: Desk) -> None:
    value = {"path": ["/other/lib/python3.12", "/mine"], "prefixes": ["/other"]}
    desk.put(whereabouts.PATH, value)
    assert "/mine" in sys.path
    assert "/other/lib/python3.12" not in sys.path


@pytest.mark.slow
def test_options_of_libraries_come_back_and_later_ones_are_undone(desk: Desk) -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    matplotlib, torch = pytest.importorskip("matplotlib"), pytest.importorskip("torch")
    pandas.set_option("display.max_rows", 7)
    numpy.set_printoptions(precision=3)
    matplotlib.rcParams["lines.linewidth"] = 4.5
    torch.set_default_dtype(torch.float64)
    decimal.getcontext().prec = 11
    value = desk.take(options.SECTION)
    pandas.reset_option("display.max_rows")
    pandas.set_option("display.precision", 2)
    numpy.set_printoptions(precision=5)
    numpy.seterr(divide="raise")
    matplotlib.rcParams["lines.linewidth"] = 1.0
    torch.set_default_dtype(torch.float32)
    context = decimal.getcontext()
    context.prec = 12
    undo = desk.put(options.SECTION, value)
    assert pandas.get_option("display.max_rows") == 7
    assert pandas.get_option("display.precision") == 6
    assert numpy.get_printoptions()["precision"] == 3
    assert numpy.geterr()["divide"] == "warn"
    assert matplotlib.rcParams["lines.linewidth"] == 4.5
    assert torch.get_default_dtype() is torch.float64
    assert (context.prec, context) == (11, decimal.getcontext())
    undo()
    assert numpy.get_printoptions()["precision"] == 5
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.slow
def test_an_option_that_this_version_does_not_know_costs_only_itself(desk: Desk) -> None:
    pytest.importorskip("pandas")
    desk.put(options.SECTION, {"pandas": [{"display.no_such": 1, "display.max_rows": 9}]})
    assert sys.modules["pandas"].get_option("display.max_rows") == 9
    assert "no such setting" in desk.findings[-1].reason


def test_filters_of_warnings_come_back_in_the_same_list(desk: Desk) -> None:
    filters = warnings.filters
    warnings.filterwarnings("ignore", message="mine")
    value = desk.take(cautions.SECTION)
    warnings.resetwarnings()
    undo = desk.put(cautions.SECTION, value)
    warnings.warn("mine", stacklevel=1)
    assert warnings.filters is filters
    undo()
    assert warnings.filters == []


def test_a_filter_of_a_librarys_warnings_imports_no_library_and_holds_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old(UserWarning):
        """Of the library."""

    class Older(Old):
        """Of the library."""

    Old.__module__, Old.__qualname__ = "some_library", "Old"
    library = SimpleNamespace(Old=Old)
    monkeypatch.setitem(sys.modules, "some_library", library)
    warnings.filterwarnings("ignore", message="sharp", category=Old)
    value = desk.take(cautions.SECTION)
    assert value[0][2] == ("some_library", "Old")

    monkeypatch.delitem(sys.modules, "some_library")
    warnings.filters.pop(0)  # type: ignore[attr-defined]
    desk.put(cautions.SECTION, value)
    assert "some_library" not in sys.modules
    warnings.warn("sharp", Older, stacklevel=1)  # by the time it warns it is imported
    with pytest.raises(UserWarning, match="sharp"):  # as every other one in these tests
        warnings.warn("sharp", UserWarning, stacklevel=1)

    again = desk.take(cautions.SECTION)
    assert again == value
    monkeypatch.setitem(sys.modules, "some_library", library)
    desk.put(cautions.SECTION, again)
    assert warnings.filters[0][2] is Old


def _as_text(value: bytes) -> str:
    return value.decode()


def test_conversions_of_sqlite_come_back(desk: Desk) -> None:
    converters = sqlite3.converters  # type: ignore[attr-defined]
    sqlite3.register_converter("mine", _as_text)
    value = desk.take(conversions.SECTION)
    assert "MINE" in dict(value["converters"])
    assert "TIMESTAMP" not in dict(value["converters"])
    del converters["MINE"]
    undo = desk.put(conversions.SECTION, value)
    assert converters["MINE"] is _as_text
    undo()
    assert "MINE" not in converters


def test_loggers_get_their_levels_and_handlers_back(desk: Desk, tmp_path: Path) -> None:
    logger = logging.getLogger("tests.mine")
    logger.setLevel(37)
    written = logging.FileHandler(tmp_path / "log.txt", mode="w")
    logger.handlers[:] = [written, logging.NullHandler()]
    logger.error("first")
    taken = logs.SECTION.take(desk.findings.append)
    value = trip({**taken, "loggers": {"tests.mine": taken["loggers"]["tests.mine"]}})
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = []
    undo = desk.put(logs.SECTION, value)
    assert logger.level == 37
    logger.error("second")
    made = logger.handlers[0]
    assert [type(handler) for handler in logger.handlers] == [logging.FileHandler, logging.NullHandler]
    assert (tmp_path / "log.txt").read_text() == "first\nsecond\n"
    undo()
    assert (logger.level, logger.handlers) == (logging.NOTSET, [])
    made.close()
    written.close()
    logging.disable(logging.NOTSET)


def test_a_handler_without_what_it_writes_to_is_not_given_to_its_logger(desk: Desk) -> None:
    logger = logging.getLogger("tests.mine")
    taken = {"level": 0, "propagate": True, "disabled": False, "filters": []}
    mute = logging.StreamHandler()
    mute.stream = lost.marker("Screen", "it could not be made again")
    value = {"loggers": {"tests.mine": {**taken, "handlers": [mute, logging.NullHandler()]}}}
    undo = desk.put(logs.SECTION, {**value, "levels": {}, "disable": logging.NOTSET, "captures": False})
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    undo()
    mute.stream = sys.stderr


def test_what_was_typed_and_what_came_out_is_put_into_the_shells_own_lists(desk: Desk) -> None:
    def shell(lines: list[str], outputs: dict[int, Any], count: int) -> tuple[history.History, Any]:
        held = SimpleNamespace(_=outputs.get(1), count=count)
        names: dict[str, Any] = {"_": outputs.get(1), "_1": outputs.get(1), "mine": 1}
        return (
            history.History(
                inputs={"In": lines},
                outputs=outputs,
                names=names,
                hidden={"_": names["_"]},
                latest=held,
                count=lambda: held.count,
                set_count=lambda number: setattr(held, "count", number),
            ),
            held,
        )

    saved, _ = shell(["", "41 + 1"], {1: 42}, 2)
    value = desk.take(history.section(saved))
    fresh, held = shell([""], {}, 1)
    lines, outputs = fresh.inputs["In"], fresh.outputs
    undo = desk.put(history.section(fresh), value)
    assert (lines, outputs, held.count, held._) == (["", "41 + 1"], {1: 42}, 2, 42)
    assert fresh.names["_1"] == 42
    assert fresh.hidden == {"_": 42}
    undo()
    assert (lines, outputs, held.count, held._) == ([""], {}, 1, None)
    assert fresh.hidden == {"_": None}
