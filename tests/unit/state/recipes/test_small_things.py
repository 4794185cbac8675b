"""Things of the standard library, and of others' recipes."""

from __future__ import annotations

import asyncio
import bz2
import csv
import decimal
import functools
import gzip
import io
import logging
import lzma
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes import assemble, users
from tests.support.state_trip import Gone, save, trip


class Dice(random.Random):
    """A source with something of its own."""

    def __init__(self, sides: int) -> None:
        super().__init__(7)
        self.sides = sides


class Meter:
    """Something that only its recipe can save."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        raise TypeError("no")


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    users.unregister(Meter)


def test_sources_of_random_numbers_go_on_with_what_their_classes_added() -> None:
    dice = Dice(6)
    dice.gauss(0, 1)
    made, system = trip((dice, random.SystemRandom()))
    assert (made.sides, made.gauss(0, 1), made.random()) == (6, dice.gauss(0, 1), dice.random())
    assert 0 <= system.random() < 1


def test_the_source_that_all_share_stays_that_one() -> None:
    function, shared = trip((random.random, random._inst))  # type: ignore[attr-defined]
    assert shared is random._inst  # type: ignore[attr-defined]
    assert function.__self__ is shared


def test_the_legacy_source_of_numpy_stays_that_one() -> None:
    numpy = pytest.importorskip("numpy")
    made = trip((numpy.random.rand, numpy.random.RandomState(3), numpy.random.default_rng(3)))
    assert made[0].__self__ is numpy.random.mtrand._rand
    assert made[1].rand() == numpy.random.RandomState(3).rand()
    assert made[2].random() == numpy.random.default_rng(3).random()


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_a_compressed_file_is_read_on(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "data"
    with module.open(path, "wt") as file:
        file.write("a\nb\nc\n")
        assert "compressor" in save(file.buffer).said.lost[0].reason
    with module.open(path, "rt") as file:
        file.readline()
        with trip(file) as made:
            assert made.read() == "b\nc\n"
        raw = io.BytesIO(path.read_bytes())
    closed = trip(file.buffer)
    assert closed.closed
    with module.open(raw) as over:
        over.read(2)
        made, base = trip((over, raw))
        assert made.read() == b"b\nc\n"
        made.close()
        assert not base.closed


@pytest.mark.parametrize("how", ["match", "search", "fullmatch"])
def test_a_match_comes_back_as_it_was(how: str) -> None:
    match = getattr(re.compile("a(b+?)(x)?"), how)("abb" if how != "search" else "zabb")
    made = trip(match)
    assert (made.regs, made.groups(), made.string) == (match.regs, match.groups(), match.string)
    later = list(re.finditer("[ab]", "xaxb"))[1]
    assert trip(later).span() == (3, 4)


def test_a_writer_of_rows_writes_to_the_restored_file() -> None:
    file = io.StringIO()
    writer = csv.DictWriter(file, ["a", "b"], delimiter=";")
    writer.writeheader()
    made, file = trip((writer, file))
    made.writerow({"a": 1, "b": 2})
    assert file.getvalue() == "a;b\r\n1;2\r\n"


def test_a_reader_of_rows_reads_on_in_the_restored_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a;b\n1;"x\ny"\n3;4\n')
    with path.open(newline="") as file:
        reader = csv.reader(file, delimiter=";")
        assert [next(reader), next(reader)] == [["a", "b"], ["1", "x\ny"]]
        made, again = trip((reader, file))
        with again:
            assert (made.line_num, next(made), made.line_num) == (3, ["3", "4"], 4)
        assert next(reader) == ["3", "4"]


def test_threads_come_back_unless_they_run() -> None:
    go = threading.Event()
    ended, runs = threading.Thread(target=bool), threading.Thread(target=go.wait, args=(30,))
    waits = threading.Thread(target=go.set, name="waits", daemon=True)
    for thread in (ended, runs):
        thread.start()
    ended.join(10)
    saved = save((ended, waits, threading.main_thread(), runs))
    go.set()
    runs.join(10)
    made, begins, main, gone = saved.back()
    assert not made.is_alive()
    with pytest.raises(RuntimeError, match="once"):
        made.start()
    assert (begins.name, begins.daemon, begins.is_alive()) == ("waits", True, False)
    begins.start()
    begins.join(10)
    assert main is threading.main_thread()
    assert "its process only" in gone.reason


def test_what_everybody_shares_is_found_again_and_never_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    saved = save([os.environ, struct.Struct("<ii"), io.StringIO("x"), _closed(io.BytesIO(b"y"))])
    assert b"hunter2" not in saved.content
    environment, layout, text, closed = saved.back()
    assert environment is os.environ
    assert layout.size == 8
    assert text.read() == "x"
    assert closed.closed


def _closed(file: io.BytesIO) -> io.BytesIO:
    file.close()
    return file


def test_keys_that_compare_with_a_function_compare_on() -> None:
    key = functools.cmp_to_key(_backwards)
    made, one, two = trip((key, key(1), key(2)))
    assert sorted([1, 3, 2], key=made) == [3, 2, 1]
    assert two < one
    assert one.obj == 1


def _backwards(one: int, other: int) -> int:
    return other - one


def test_the_context_of_decimals_stays_the_one_in_force() -> None:
    assert trip(decimal.getcontext()) is decimal.getcontext()
    assert trip(decimal.ExtendedContext) is decimal.ExtendedContext
    assert trip(decimal.Context(prec=5)).prec == 5


def test_a_program_that_has_ended_keeps_its_result() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as program:
        assert program.wait(60) == 3
    assert trip(program).poll() == 3


def test_loggers_stay_who_they_are_and_handlers_write_on() -> None:
    logger, text = logging.getLogger("tests.small"), io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    same, root, loose, made, text = trip((logger, logging.root, logging.Logger("loose", 30), handler, text))
    assert same is logger
    assert root is logging.root
    assert (loose.name, loose.level) == ("loose", 30)
    made.handle(logging.LogRecord("n", 30, "p", 1, "hello", None, None))
    assert text.getvalue() == "WARNING hello\n"


def test_a_bar_counts_on_and_its_clock_stood_still() -> None:
    std = pytest.importorskip("tqdm.std")
    text = io.StringIO()
    bar = std.tqdm(total=10, file=text, desc="work")
    bar.update(3)
    bar.start_t -= 100
    made, text = trip((bar, text))
    made.update(2)
    made.refresh()
    assert (made.n, made.total, made.desc) == (5, 10, "work")
    assert 100 <= made.format_dict["elapsed"] < 160
    assert "5/10" in text.getvalue()
    made.close()
    bar.close()


@pytest.mark.slow
def test_figures_come_back_as_one_graph_and_open_no_window() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    (line,) = axes.plot([1, 2, 3])
    made, again, same, canvas = trip((figure, axes, line, canvas))
    assert again.figure is made
    assert again.lines[0] is same
    assert canvas is made.canvas


@pytest.mark.asyncio
async def test_queues_and_locks_of_a_loop_work_in_another_one() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    lock, event = asyncio.Lock(), asyncio.Event()
    queue.put_nowait(1)
    await lock.acquire()
    event.set()
    assert trip(asyncio.get_running_loop()) is asyncio.get_running_loop()
    waiter = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    saved = save((queue, lock, event, waiter))
    waiter.cancel()
    made = await asyncio.to_thread(lambda: asyncio.run(_used(saved.back()[:3])))
    assert made == (1, True, True)
    assert [gone.type_name for gone in saved.said.lost] == ["Task"]
    assert "1 tasks that waited" in saved.said.notes[0][1]


async def _used(values: Any) -> tuple[int, bool, bool]:
    queue, lock, event = values
    held = lock.locked()
    lock.release()
    await lock.acquire()
    return await queue.get(), held, await event.wait()


def test_a_future_keeps_what_it_has_come_to() -> None:
    done, waiting = Future[int](), Future[int]()
    done.set_result(3)
    saved = save((done, waiting))
    assert saved.back()[0].result(0) == 3
    assert len(saved.said.lost) == 1


def test_temporary_files_come_back_with_what_was_in_them() -> None:
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as name:
        directory = tempfile.TemporaryDirectory(dir=name)
        (Path(directory.name) / "sub").mkdir()
        (Path(directory.name) / "sub" / "x").write_text("1")
        file.write(b"123")
        saved = save((file, directory))
        file.close()
        directory.cleanup()
        made, directory = saved.back()
        assert Path(made.name).read_bytes() == b"123"
        assert (Path(directory.name) / "sub" / "x").read_text() == "1"
        assert [kind for kind, _ in saved.said.notes] == [FindingKind.REBUILT, FindingKind.REBUILT]
        directory.cleanup()
        made.close()
        assert not Path(made.name).exists()


def test_a_temporary_directory_that_is_replaced_does_not_delete_the_restored_one() -> None:
    directory = tempfile.TemporaryDirectory()
    made = trip(directory)
    del directory
    assert Path(made.name).is_dir()
    made.cleanup()


def test_a_registered_recipe_is_used(registered: None) -> None:
    users.register(Meter, lambda one: one.value, Meter)
    assert trip([Meter(4)])[0].value == 4
    with pytest.raises(TypeError, match="takes a type"):
        users.register(Meter, 3, Meter)  # type: ignore[arg-type]


def test_a_fault_in_a_recipe_costs_its_value_only(registered: None) -> None:
    users.register(Meter, lambda one: one.no_such, Meter)
    saved = save([1, Meter(4)])
    one, gone = saved.back()
    assert one == 1
    assert isinstance(gone, Gone)
    assert "its recipe failed: AttributeError" in gone.reason


def test_a_package_is_asked_for_its_recipes_once_it_is_in_use(
    registered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = types.ModuleType("tests_meters")
    package.__dict__["tell"] = lambda: users.register(Meter, lambda one: one.value, Meter)
    lines = [f"[{users.GROUP}]", "tests_meters = tests_meters:tell", "tests_broken = tests_broken:tell"]
    (tmp_path / "meters-1.dist-info").mkdir()
    (tmp_path / "meters-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    assert Meter not in [recipe.kind for recipe in users.recipes()]
    monkeypatch.setitem(sys.modules, "tests_meters", package)
    monkeypatch.setitem(sys.modules, "tests_broken", types.ModuleType("tests_broken"))
    assert assemble.registry().reducer(Meter) is not None
    assert "tests_broken:tell cannot be used" in caplog.text
