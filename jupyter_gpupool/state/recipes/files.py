"""Open files: path, mode and place come back; what was not written yet is written first.

Rules of this module: a restore never truncates, creates or writes a file that has a name; a file that is gone
is lost and named; one that has changed since is opened and that is said.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes import peek, places
from jupyter_gpupool.state.recipes.plain import extra, named, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

#: Contents of files without a name are kept up to this many bytes.
MAX_CONTENT_BYTES = 16 * 1024 * 1024
_STANDARD = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_NEWLINES = (None, "", "\n", "\r", "\r\n")
#: Positions of text are searched in files up to this size, where Python does not tell them.
_MAX_SEARCH_BYTES = 64 * 1024 * 1024


def _standard(value: Any) -> str | None:
    return next((name for name in _STANDARD if getattr(sys, name, None) is value), None)


def _raw(value: io.FileIO, capturing: Capturing) -> Reduced:
    if value.closed:
        return (
            make_closed_file,
            (type(value), value.name, value.mode),
            extra(value),
            None,
            None,
            set_attributes,
        )
    status = os.fstat(value.fileno())
    if stat.S_ISCHR(status.st_mode) and not value.isatty():
        path = places.path_of(value.fileno(), value.name)
        return make_device, (type(value), value.name, path or os.devnull, value.mode)
    if not stat.S_ISREG(status.st_mode):
        return capturing.lose(value, _irregular(value, status.st_mode), "Open it again after a restore.")
    path, at = places.path_of(value.fileno(), value.name), value.seek(0, os.SEEK_CUR)
    if path is None:
        return _nameless(value, status.st_size, at, capturing)
    mark = (status.st_size, status.st_mtime_ns)
    args = (type(value), value.name, path, value.mode, at, mark)
    return make_file, args, extra(value), None, None, set_attributes


def _irregular(value: io.FileIO, mode: int) -> str:
    if stat.S_ISSOCK(mode):
        return "a socket cannot be saved: the other end would not know"
    if stat.S_ISFIFO(mode):
        return "a pipe cannot be saved: the other end would not know"
    return f"{value.name!r} is a terminal or another thing that cannot be opened at a place"


def _nameless(value: io.FileIO, size: int, at: int, capturing: Capturing) -> Reduced:
    if size > MAX_CONTENT_BYTES:
        reason = f"its file has been deleted, and its {size:,} bytes are too many to be kept in a snapshot"
        return capturing.lose(value, reason, "Copy it to a file with a name.")
    content = places.content_of(value.fileno(), size)
    if content is None:
        return capturing.lose(value, "its file has been deleted, and cannot be read", "Make it again.")
    capturing.note(value, FindingKind.REBUILT, f"its file has no name, so its {size:,} bytes were kept")
    return make_nameless, (type(value), value.name, value.mode, content, at)


def make_file(kind: type, name: Any, path: str, mode: str, at: int, mark: tuple[int, int]) -> Any:
    """Open a file where it was, without changing it."""
    try:
        status = Path(path).stat()
        shown = path if isinstance(name, int) else name
        file = kind(shown, mode.replace("b", ""), opener=lambda _name, flags: _open(path, flags))
    except OSError as error:
        return loading.current().lost(
            "_io.FileIO",
            f"the file {path} cannot be opened: {error.strerror}",
            "Put it back, and restore again.",
        )
    if (status.st_size, status.st_mtime_ns) != tuple(mark):
        loading.current().note(file, FindingKind.CHANGED, f"the file {path} has changed since the snapshot")
    file.seek(at)
    return file


def _open(path: str, flags: int) -> int:
    return os.open(path, flags & ~(os.O_TRUNC | os.O_CREAT | os.O_EXCL))


def make_device(kind: type, name: Any, path: str, mode: str) -> Any:
    """Open a device such as ``/dev/null``."""
    return kind(path if isinstance(name, int) else name, mode.replace("b", "").replace("x", "w"))


def make_closed_file(kind: type, name: Any, mode: str) -> Any:
    """Make a file that is closed already."""
    shown = os.devnull if isinstance(name, int) else name
    file = kind(shown, mode.replace("b", ""), opener=lambda _name, flags: _open(os.devnull, os.O_RDWR))
    file.close()
    return file


def make_nameless(kind: type, name: Any, mode: str, content: bytes, at: int) -> Any:
    """Make a file with these bytes that has no name."""
    number, path = tempfile.mkstemp()
    Path(path).unlink()
    os.write(number, content)
    os.lseek(number, at, os.SEEK_SET)
    mode = mode.replace("b", "").replace("x", "w")
    if isinstance(name, int):
        return kind(number, mode)
    return kind(name, mode, opener=lambda _name, _flags: number)


def _buffered(value: Any, capturing: Capturing) -> Reduced:
    if name := _standard(value):
        return named, ("sys", name)
    if value.closed:
        return make_closed, (type(value), value.raw), extra(value), None, None, set_attributes
    if not value.raw.seekable():
        return capturing.lose(value, "it cannot be opened at a place", "Open it again after a restore.")
    before = _memory(value.raw)
    if value.writable():
        value.flush()
    args = (type(value), value.raw, value.tell(), _written(value.raw, before))
    return make_buffered, args, extra(value), None, None, set_attributes


def _memory(base: Any) -> bytes | None:
    return base.getvalue() if isinstance(base, io.BytesIO) else None


def _written(base: Any, before: bytes | None) -> bytes | None:
    """Return what is in memory by now, where flushing has changed it: it may have been saved before."""
    after = _memory(base)
    return after if after != before else None


def _write(base: Any, content: bytes | None) -> None:
    if content is not None:
        base.seek(0)
        base.write(content)


def make_buffered(kind: type, raw: Any, at: int, content: bytes | None) -> Any:
    """Put a buffer over a file, at a place."""
    _write(raw, content)
    file = kind(raw)
    file.seek(at)
    return file


def make_closed(kind: type, base: Any, *more: Any) -> Any:
    """Make a wrapper of a file that is closed already."""
    file = kind(io.BytesIO(), *more)
    file.close()
    return file


def _text(value: Any, capturing: Capturing) -> Reduced:
    if name := _standard(value):
        return named, ("sys", name)
    newline = _newline(value)
    if newline is False:
        reason = "which line ends it translates cannot be read out of this Python"
        return capturing.lose(value, reason, "Open it again after a restore.")
    how = (value.encoding, value.errors, newline, value.line_buffering, value.write_through)
    if value.closed:
        attributes = {**(extra(value) or {})}
        return (
            make_closed_text,
            (type(value), *_name_and_mode(value), how),
            attributes,
            None,
            None,
            set_attributes,
        )
    if not value.seekable():
        return capturing.lose(value, "it cannot be opened at a place", "Open it again after a restore.")
    before = _memory(value.buffer)
    at = _text_place(value)  # before it is flushed: that makes Python forget that it cannot tell
    value.flush()
    written = _written(value.buffer, before)
    if at is None:
        reason = "Python does not tell its place while lines are read out of it with a loop"
        return capturing.lose(value, reason, "Read it with readline(), or into a list.")
    args = (type(value), value.buffer, how, at, written)
    return make_text, args, extra(value), None, None, set_attributes


def _name_and_mode(value: Any) -> tuple[Any, str]:
    raw = getattr(value.buffer, "raw", None)
    return getattr(raw, "name", None), getattr(raw, "mode", "rb")


def _text_place(value: Any) -> Any:
    try:
        return value.tell()
    except OSError:
        pass
    if not value.readable() or os.fstat(value.fileno()).st_size > _MAX_SEARCH_BYTES:
        return None
    rest = value.read()
    next(value, None)  # at the end, it tells its place again
    value.seek(0)
    whole = value.read()
    value.seek(0)
    if whole.endswith(rest):
        value.read(len(whole) - len(rest))
        return value.tell()
    value.seek(0, os.SEEK_END)
    return None


@cache
def _newline_at() -> int | None:
    probes = [(io.TextIOWrapper(io.BytesIO(), newline=newline), newline) for newline in ("\r\n", "", "\r")]
    return peek.place(probes, peek.pointers)


def _newline(value: Any) -> str | bool | None:
    """Return what it was opened with; False where that cannot be found."""
    at = _newline_at()
    found = peek.pointers(value)[at] if at is not None else False
    return found if found in _NEWLINES else False


def make_text(kind: type, buffer: Any, how: tuple[Any, ...], at: Any, content: bytes | None) -> Any:
    """Put text over a file of bytes, at a place."""
    _write(buffer, content)
    file = kind(buffer, *how)
    file.seek(at)
    return file


def make_closed_text(kind: type, name: Any, mode: str, how: tuple[Any, ...]) -> Any:
    """Make a file of text that is closed already."""
    shown = os.devnull if name is None or isinstance(name, int) else name
    raw = io.FileIO(shown, mode.replace("b", ""), opener=lambda _name, _flags: _open(os.devnull, os.O_RDWR))
    buffered: Any = io.BufferedReader(raw) if raw.readable() else io.BufferedWriter(raw)
    file = kind(buffered, *how)
    file.close()
    return file


def _in_memory(value: Any, capturing: Capturing) -> Reduced | None:
    if not value.closed:
        return None
    return make_closed_memory, (type(value),), extra(value), None, None, set_attributes


def make_closed_memory(kind: type) -> Any:
    """Make a file in memory that is closed already."""
    file = kind()
    file.close()
    return file


RECIPES = (
    Recipe(module="_io", qualname="BytesIO", reduce=_in_memory, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="StringIO", reduce=_in_memory, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="FileIO", reduce=_raw, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="BufferedReader", reduce=_buffered, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="BufferedWriter", reduce=_buffered, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="BufferedRandom", reduce=_buffered, subclasses=True, regardless=True),
    Recipe(module="_io", qualname="TextIOWrapper", reduce=_text, subclasses=True, regardless=True),
)
