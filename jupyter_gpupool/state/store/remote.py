"""The store's files in an object store, or in memory, through fsspec.

Rules of this module: an object appears whole when it is closed, which is what object stores promise; nothing
is locked there, so that what is young is left alone by whoever collects.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from jupyter_gpupool.state.errors import StateError, StoreUnavailable
from jupyter_gpupool.state.store.files import Bytes, Held, Listed
from jupyter_gpupool.state.store.local import failed

#: Bytes of one part of an upload.
PART_BYTES = 16 * 1024 * 1024
_CHANGED = ("LastModified", "mtime", "updated", "last_modified", "created")


@contextmanager
def translated(where: str, *, writing: bool = False) -> Iterator[None]:
    """Translate errors of drivers, but for an object to read that is not there."""
    try:
        yield
    except (EOFError, StateError):
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not writing:
            raise
        failed(error, where)
    except Exception as error:
        raise StoreUnavailable(
            f"The store of snapshots at {where} cannot be used: {type(error).__name__}: {error}.",
            hint="Check its address and your credentials.",
        ) from error


class RemoteSource:
    """An object that is read by ranges."""

    def __init__(self, system: Any, path: str, where: str) -> None:
        self._system, self._path, self._where = system, path, where

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill ``target`` from ``offset`` on."""
        with translated(self._where):
            data = self._system.cat_file(self._path, start=offset, end=offset + len(target))
        if len(data) != len(target):
            raise EOFError(f"{self._path} ends at {offset + len(data)}")
        target[:] = data

    def close(self) -> None:
        """Nothing is held."""


class RemoteSink:
    """An object that is uploaded by parts."""

    def __init__(self, system: Any, path: str, where: str) -> None:
        self._system, self._path, self._where = system, path, where
        with translated(where, writing=True):
            self._file = system.open(path, "wb", block_size=PART_BYTES)

    def write(self, data: Bytes) -> None:
        """Write all of ``data``."""
        with translated(self._where, writing=True):
            self._file.write(data)

    def finish(self) -> None:
        """Complete the upload."""
        with translated(self._where, writing=True):
            self._file.close()

    def discard(self) -> None:
        """Abandon the upload."""
        with contextlib.suppress(Exception):
            self._file.discard()
        with contextlib.suppress(AttributeError):
            self._file.closed = True  # or it would complete the upload when it is collected
        with contextlib.suppress(Exception):
            self._system.rm_file(self._path)  # in memory it is there from its first byte on


class RemoteFiles:
    """The files of one owner below a prefix.

    Parameters
    ----------
    system : fsspec.AbstractFileSystem
        The file system, with its credentials.
    root : str
        The prefix.
    address : str
        How a person would write it, without credentials.
    """

    punches = False

    def __init__(self, system: Any, root: str, address: str) -> None:
        self.address = address
        self._system, self._root = system, root.rstrip("/")

    def listing(self, folder: str) -> list[Listed]:
        """List the files of a folder."""
        with translated(self.address):
            try:
                found = self._system.ls(f"{self._root}/{folder}", detail=True, refresh=True)
            except FileNotFoundError:
                return []
        return [_listed(entry) for entry in found if entry["type"] == "file"]

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        with translated(self.address):
            data: bytes = self._system.cat_file(f"{self._root}/{path}")
        return data

    def open(self, path: str) -> RemoteSource:
        """Open a file to read."""
        return RemoteSource(self._system, f"{self._root}/{path}", self.address)

    def create(self, path: str) -> RemoteSink:
        """Begin a new file."""
        self._folder(path)
        return RemoteSink(self._system, f"{self._root}/{path}", self.address)

    def put(self, path: str, data: bytes, *, lasting: bool = True) -> None:
        """Write a small file, whole or not at all."""
        self._folder(path)
        with translated(self.address, writing=True):
            self._system.pipe_file(f"{self._root}/{path}", data)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with translated(self.address), contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{path}")

    @contextmanager
    def lock(self, *, shared: bool, wait_seconds: float) -> Iterator[Held]:
        """Say that nothing can be locked."""
        yield Held.NEVER

    def punch(self, path: str, ranges: list[tuple[int, int]]) -> bool:
        """Say that objects have no holes."""
        return False

    def local_path(self, path: str) -> str | None:
        """Say that they are elsewhere."""
        return None

    def _folder(self, path: str) -> None:
        """Make the folder, where the file system has folders."""


class MemoryFiles(RemoteFiles):
    """Files in the memory of this process; what locks them is in this process too."""

    def __init__(self, system: Any, root: str) -> None:
        super().__init__(system, root, "memory:")
        self._turn = threading.Condition()
        self._sharing = 0

    @contextmanager
    def lock(self, *, shared: bool, wait_seconds: float) -> Iterator[Held]:
        """Hold the store."""
        free = (lambda: self._sharing >= 0) if shared else (lambda: self._sharing == 0)
        with self._turn:
            if not self._turn.wait_for(free, wait_seconds):
                got = Held.BUSY
            else:
                got = Held.YES
                self._sharing += 1 if shared else -1
        try:
            yield got
        finally:
            if got is Held.YES:
                with self._turn:
                    self._sharing -= 1 if shared else -1
                    self._turn.notify_all()

    def close(self) -> None:
        """Give the memory back."""
        with contextlib.suppress(FileNotFoundError):
            self._system.rm(self._root, recursive=True)

    def _folder(self, path: str) -> None:
        folder = f"{self._root}/{path}".rpartition("/")[0]
        self._system.makedirs(folder, exist_ok=True)


def _listed(entry: dict[str, Any]) -> Listed:
    changed = next((entry[key] for key in _CHANGED if entry.get(key)), None)
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    if isinstance(changed, datetime):
        changed = changed.timestamp()
    name = entry["name"].rstrip("/").rpartition("/")[2]
    # A driver that does not say when is taken to have written it just now: it is left alone.
    return Listed(name, entry["size"], entry["size"], time.time() if changed is None else float(changed))
