"""``jupyter gpupool notebook``, as people type it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_gpupool.cli.notebook_text import NotebookRefused, NotebookText
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.notebook_file import share_metadata
from jupyter_gpupool.protocol.wanted import read_wanted
from tests.unit.test_join_commands import Terminal

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pools run on Linux")


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def content() -> dict[str, Any]:
    """Return a notebook with what is easily lost: lines, letters, outputs, attachments, unknown metadata."""
    code = nbformat.v4.new_code_cell(
        "a = 1\nprint('größer ≥ 1')\n", metadata={"tags": ["x"], "odd": [1.0, 2]}
    )
    code.outputs = [nbformat.v4.new_output("stream", text="größer ≥ 1\n")]
    words = nbformat.v4.new_markdown_cell("# Ünter", attachments={"a.png": {"image/png": "aGVsbG8="}})
    book = nbformat.v4.new_notebook(cells=[words, code], metadata={"vendor": {"z": None}})
    book.metadata["language_info"] = {"name": "python"}
    found: dict[str, Any] = json.loads(nbformat.writes(book))
    return found


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps(content(), indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    return path


def test_a_share_is_set_shown_and_taken_out_and_nothing_else_changes(terminal: Terminal, book: Path) -> None:
    before = book.read_bytes()
    assert "asks for no share" in terminal(f"notebook show {book}")
    assert "0.25 of a CUDA device" in terminal(f"notebook set-share {book} 1/4 --kind cuda --wait 2m")
    changed = json.loads(book.read_text())
    assert changed["metadata"].pop("gpupool") == {"share": "1/4", "kind": "cuda", "wait": "2m"}
    assert changed == json.loads(before)
    nbformat.read(book, as_version=nbformat.NO_CONVERT)
    assert "0.25 of a CUDA device (wait 2m)" in terminal(f"notebook show {book}")
    assert "asks for no share any more" in terminal(f"notebook unset {book}")
    assert book.read_bytes() == before
    assert "asked for no share" in terminal(f"notebook unset {book}")


@pytest.mark.parametrize(
    "style",
    [
        {"indent": 1, "ensure_ascii": False},
        {"indent": 2, "ensure_ascii": True},
        {"indent": None, "separators": (",", ":")},
        {"indent": "\t"},
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_way_a_file_was_written_is_kept(tmp_path: Path, style: dict[str, Any], end: str) -> None:
    path = tmp_path / "a.ipynb"
    line = "\r\n" if end == "\r\n" else "\n"
    path.write_bytes((json.dumps(content(), **style).replace("\n", line) + end).encode())
    before = path.read_bytes()
    NotebookText.read(path).set_metadata("gpupool", {"share": 0.5})
    after = path.read_bytes()
    assert after.endswith(end.encode())
    assert len(after.splitlines()) - len(before.splitlines()) in (0, 3)
    assert sum(it not in set(before.splitlines()) for it in after.splitlines()) <= 4
    NotebookText.read(path).set_metadata("gpupool", None)
    assert path.read_bytes() == before


def test_a_file_keeps_mode_and_link_and_nothing_lies_beside_it(tmp_path: Path, book: Path) -> None:
    book.chmod(0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(book)
    NotebookText.read(link).set_metadata("gpupool", {"share": 0.5})
    assert link.is_symlink()
    assert book.stat().st_mode & 0o777 == 0o640
    assert sorted(it.name for it in tmp_path.iterdir()) == ["book.ipynb", "link.ipynb"]


def test_what_somebody_wrote_meanwhile_is_not_overwritten(book: Path) -> None:
    text = NotebookText.read(book)
    book.write_text(book.read_text().replace("Ünter", "Über"))
    there = book.read_bytes()
    with pytest.raises(NotebookRefused, match="was changed meanwhile"):
        text.set_metadata("gpupool", {"share": 0.5})
    assert book.read_bytes() == there
    assert list(book.parent.iterdir()) == [book]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("set-share {book} 7", "more than one device"),
        ("set-share {book} 0.5 --kind gpu", "Give one of"),
        ("set-share {book}", "Write: jupyter gpupool notebook set-share NOTEBOOK SHARE"),
        ("set-share {book}.gone 0.5", "cannot be read: No such file"),
        ("set-share {text} 0.5", "is no notebook"),
        ("set-share {odd} 0.5", "is not a valid notebook"),
        ("show {bare}", "it has no metadata"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    terminal: Terminal, book: Path, arguments: str, said: str
) -> None:
    files = {"book": book, "text": book.with_name("a.txt"), "odd": book.with_name("odd.ipynb")}
    files["bare"] = book.with_name("bare.ipynb")
    files["text"].write_text("a text")
    odd = content()
    del odd["cells"][0]["source"]
    files["odd"].write_text(json.dumps(odd))
    files["bare"].write_text("[]")
    before = {it: it.read_bytes() for it in files.values()}
    assert said in terminal(f"notebook {arguments.format(**files)}", status=1)
    assert {it: it.read_bytes() for it in files.values()} == before


def test_a_kernel_finds_what_its_notebook_says(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert share_metadata(str(book)) is None
    NotebookText.read(book).set_metadata("gpupool", {"share": 0.5, "kind": "cpu"})
    for session, cwd in ((str(book), ""), (f"folder/{book.name}", str(book.parent))):
        found = share_metadata(session, cwd)
        assert found is not None
        wanted = read_wanted(found, "notebook").request
        assert (wanted.compute_milli, wanted.kind) == (500, DeviceKind.CPU)
    monkeypatch.chdir(book.parent)
    assert share_metadata(f"x/{book.name}") == found
    for text in ("", "no", '"gpupool"', '{"metadata": 5, "a": "gpupool"}', '["gpupool"]'):
        book.write_text(text)
        assert share_metadata(str(book)) is None
    assert share_metadata("") is None
    assert share_metadata(str(book.parent)) is None
