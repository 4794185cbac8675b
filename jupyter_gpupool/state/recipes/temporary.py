"""Temporary files and directories: small ones come back with what is in them.

Rules of this module: what is there is never overwritten; the one of this process that the restore replaces
does not delete what the restored one has.
"""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.graph import loading
from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.files import MAX_CONTENT_BYTES
from jupyter_gpupool.state.recipes.plain import afterwards, attributes_of, new, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

#: A path below the directory, its mode, and its bytes (None for a directory).
Part = tuple[str, int, bytes | None]


def _file(value: Any, capturing: Capturing) -> Reduced:
    if not value.file.closed and value.file.writable():
        value.file.flush()
    content, changed_ns = _content(value, Path(value.name), capturing)
    attributes = {
        name: found
        for name, found in attributes_of(value).items()
        if not callable(found) or name == "_closer"
    }
    args = (type(value), value.name, content, changed_ns)
    return make_file, args, attributes, None, None, set_attributes


def _content(value: Any, path: Path, capturing: Capturing) -> tuple[bytes | None, int]:
    if not path.is_file():
        return None, 0
    status = path.stat()
    if status.st_size > MAX_CONTENT_BYTES:
        reason = f"its {status.st_size:,} bytes are too many to be kept: it needs {path} to be there"
        capturing.note(value, FindingKind.CHANGED, reason)
        return None, 0
    return path.read_bytes(), status.st_mtime_ns


def make_file(kind: type, name: str, content: bytes | None, changed_ns: int) -> Any:
    """Make a temporary file's contents again if they are gone."""
    path, value = Path(name), new(kind)
    if content is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.utime(path, ns=(changed_ns, changed_ns))
        loading.current().note(value, FindingKind.REBUILT, f"{path} was made again with what was in it")
    return value


def _closer(value: Any, capturing: Capturing) -> Reduced:
    return new, (type(value),), attributes_of(value), None, None, fill_closer


def fill_closer(value: Any, attributes: dict[str, Any]) -> None:
    """Give what deletes a temporary file its work, once the restore cannot fail any more."""
    set_attributes(value, {**attributes, "delete": False})
    loading.current().later(lambda: _disarm_closers(value))
    afterwards(lambda: set_attributes(value, {"delete": attributes["delete"]}))


def _disarm_closers(value: Any) -> None:
    for other in gc.get_objects():
        if type(other) is type(value) and other is not value and getattr(other, "name", None) == value.name:
            other.delete = False


def _directory(value: Any, capturing: Capturing) -> Reduced:
    parts = _parts(Path(value.name))
    if parts is None:
        reason = f"{value.name} holds too much to be kept, or other things than files: it needs to be there"
        capturing.note(value, FindingKind.CHANGED, reason)
    attributes = {name: found for name, found in attributes_of(value).items() if name != "_finalizer"}
    args = (type(value), value.name, parts)
    state = (attributes, value._finalizer.alive)
    return make_directory, args, state, None, None, fill_directory


def _parts(directory: Path) -> list[Part] | None:
    parts: list[Part] = []
    left = MAX_CONTENT_BYTES
    for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
        mode, name = path.lstat().st_mode, str(path.relative_to(directory))
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            return None
        if path.is_dir():
            parts.append((name, mode, None))
            continue
        left -= path.stat().st_size
        if left < 0:
            return None
        parts.append((name, mode, path.read_bytes()))
    return parts


def make_directory(kind: type, name: str, parts: list[Part] | None) -> Any:
    """Make a temporary directory again if it is gone."""
    value, directory = new(kind), Path(name)
    if directory.is_dir():
        return value
    if parts is None:
        return loading.current().lost(
            f"{kind.__module__}.{kind.__qualname__}", f"{name} is not there any more"
        )
    directory.mkdir(mode=0o700, parents=True)
    for below, mode, content in parts:
        path = directory / below
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
            path.chmod(mode & 0o7777)
    loading.current().note(value, FindingKind.REBUILT, f"{name} was made again with what was in it")
    return value


def fill_directory(value: Any, state: tuple[dict[str, Any], bool]) -> None:
    """Give a temporary directory what deletes it, once the restore cannot fail any more."""
    attributes, is_armed = state
    set_attributes(value, attributes)
    value._finalizer = new(weakref.finalize)
    if is_armed:
        loading.current().later(lambda: _disarm_finalizers(value))
        afterwards(lambda: _arm(value))


def _disarm_finalizers(value: Any) -> None:
    for other in list(getattr(weakref.finalize, "_registry", {})):
        held = other.peek()
        if (
            held is not None
            and held[0] is not value
            and held[2][:1] == (value.name,)
            and _is_ours(held[0], value)
        ):
            other.detach()


def _is_ours(other: Any, value: Any) -> bool:
    return type(other) is type(value)


def _arm(value: Any) -> None:
    options = {
        "warn_message": f"Implicitly cleaning up {value!r}",
        "ignore_errors": value._ignore_cleanup_errors,
    }
    if hasattr(value, "_delete"):
        options["delete"] = value._delete
    value._finalizer.__init__(value, value._cleanup, value.name, **options)


RECIPES = (
    Recipe(module="tempfile", qualname="_TemporaryFileWrapper", reduce=_file, subclasses=True),
    Recipe(module="tempfile", qualname="_TemporaryFileCloser", reduce=_closer),
    Recipe(module="tempfile", qualname="TemporaryDirectory", reduce=_directory, subclasses=True),
)
