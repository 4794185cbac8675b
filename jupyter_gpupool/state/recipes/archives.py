"""Compressed files that are being read.

Rule of this module: a reader is put to its place by reading again from the beginning; a writer has its state
in a compressor, which nobody can read, and is lost.
"""

from __future__ import annotations

import io
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_HINT = "Close it before the checkpoint; it can be opened for appending after a restore."


def _gzip(value: Any, capturing: Capturing) -> Reduced:
    if value.fileobj is None:
        return make_closed_gzip, (type(value), value.name)
    if not value.readable():
        return capturing.lose(value, "it is being written, and its compressor cannot be read back", _HINT)
    return make_gzip, (type(value), value.name, value.fileobj, value.myfileobj is not None, value.tell())


def make_gzip(kind: Any, name: str, base: Any, owns: bool, at: int) -> Any:
    """Read a gzip file on."""
    base.seek(0)
    value = kind(filename=name, mode="rb", fileobj=base)
    value.myfileobj = base if owns else None
    value.seek(at)
    return value


def make_closed_gzip(kind: Any, name: str) -> Any:
    """Make a gzip file that is closed."""
    value = kind(filename=name, mode="rb", fileobj=io.BytesIO())
    value.close()
    return value


def _other(value: Any, capturing: Capturing) -> Reduced:
    if value.closed:
        return make_closed_other, (type(value),)
    if not value.readable():
        return capturing.lose(value, "it is being written, and its compressor cannot be read back", _HINT)
    return make_other, (type(value), value._fp, value._closefp, value.tell())


def make_other(kind: Any, base: Any, owns: bool, at: int) -> Any:
    """Read a bz2 or xz file on."""
    base.seek(0)
    value = kind(base)
    value._closefp = owns
    value.seek(at)
    return value


def make_closed_other(kind: Any) -> Any:
    """Make a bz2 or xz file that is closed."""
    value = kind(io.BytesIO())
    value.close()
    return value


RECIPES = (
    Recipe(module="gzip", qualname="GzipFile", reduce=_gzip, subclasses=True),
    Recipe(module="bz2", qualname="BZ2File", reduce=_other, subclasses=True),
    Recipe(module="lzma", qualname="LZMAFile", reduce=_other, subclasses=True),
)
