# ruff: noqa: SIM115 (files are closed by the stack)
"""Open files are opened again at their place, and never harmed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.state_trip import Gone, save, trip


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.chdir(tmp_path)
    Path("f.txt").write_text("a\nb\nc\n")
    with ExitStack() as stack:
        yield stack


def test_a_file_is_read_on_where_it_was(opened: ExitStack) -> None:
    file = opened.enter_context(Path("f.txt").open())
    file.readline()
    made = opened.enter_context(trip(file))
    assert (made.readline(), made.name, made.mode) == ("b\n", "f.txt", "r")


def test_a_file_that_is_read_in_a_loop_is_read_on_and_so_is_the_original(opened: ExitStack) -> None:
    file = opened.enter_context(Path("f.txt").open())
    next(file)
    made = opened.enter_context(trip(file))
    assert next(made) == "b\n"
    assert next(file) == "b\n"


def test_a_file_opened_by_a_relative_path_is_found_from_another_directory(
    opened: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened.enter_context(Path("f.txt").open())
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert opened.enter_context(trip(file)).read() == "a\nb\nc\n"


def test_a_file_for_writing_is_not_truncated_and_keeps_what_was_not_written_yet(opened: ExitStack) -> None:
    file = opened.enter_context(Path("w.txt").open("w"))
    file.write("hello")
    saved = save(file)
    made = opened.enter_context(saved.back())
    assert Path("w.txt").read_text() == "hello"
    made.write(" you")
    made.flush()
    assert Path("w.txt").read_text() == "hello you"
    assert made.mode == "w"
    assert not saved.said.notes


@pytest.mark.parametrize(("mode", "then"), [("a", "12!"), ("x", "12!"), ("w+", "12!")])
def test_each_mode_goes_on(mode: str, then: str, opened: ExitStack) -> None:
    file = opened.enter_context(Path("n.txt").open(mode))
    file.write("12")
    with trip(file) as made:
        made.write("!")
    assert Path("n.txt").read_text() == then


def test_the_layers_of_a_file_stay_one_file(opened: ExitStack) -> None:
    file = opened.enter_context(Path("f.txt").open("r+b"))
    file.seek(2)
    made, raw = trip((file, file.raw))
    opened.enter_context(made)
    assert made.raw is raw
    assert made.read(1) == b"b"


def test_a_closed_file_comes_back_closed(opened: ExitStack) -> None:
    with Path("f.txt").open() as file:
        pass
    made = trip(file)
    assert (made.closed, made.name, made.mode) == (True, "f.txt", "r")


def test_a_file_that_has_changed_since_is_named(opened: ExitStack) -> None:
    saved = save(opened.enter_context(Path("f.txt").open()))
    Path("f.txt").write_text("longer than before")
    opened.enter_context(saved.back())
    assert "f.txt has changed since the snapshot" in saved.said.notes[0][1]


def test_a_file_that_is_gone_is_lost_and_named(opened: ExitStack) -> None:
    saved = save(opened.enter_context(Path("f.txt").open("rb", buffering=0)))
    Path("f.txt").unlink()
    made = saved.back()
    assert isinstance(made, Gone)
    assert "f.txt cannot be opened: No such file" in made.reason


def test_a_file_without_a_name_keeps_its_contents(opened: ExitStack) -> None:
    file = opened.enter_context(tempfile.TemporaryFile())
    file.write(b"123")
    saved = save(file)
    file.close()
    made = opened.enter_context(saved.back())
    made.seek(1)
    assert made.read() == b"23"


def test_text_over_bytes_in_memory_keeps_both(opened: ExitStack) -> None:
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, newline="\r\n", encoding="utf-16")
    text.write("x\n")
    raw, text = trip((raw, text))
    text.write("y\n")
    text.flush()
    assert raw.getvalue().decode("utf-16") == "x\r\ny\r\n"


def test_the_standard_streams_and_devices_stay_what_they_are(opened: ExitStack) -> None:
    null = opened.enter_context(Path(os.devnull).open("w"))
    output, made = trip((sys.__stdout__, null))
    assert output is sys.__stdout__
    with made:
        made.write("x")


def test_a_pipe_is_lost_with_the_reason() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout
        saved = save((program, program.stdout, program.stdout.raw))
    assert [gone.type_name for gone in saved.said.lost] == ["Popen", "BufferedReader", "FileIO"]
