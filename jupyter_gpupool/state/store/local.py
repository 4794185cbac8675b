"""The store's files in a directory of this machine, or of a network file system that is mounted.

Rules of this module: directories are 0700 and files 0600; a name appears by a rename after its bytes are on
the disk; locks are `flock`, so that they end with the process that holds them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from jupyter_gpupool.state.errors import StoreFull, StoreUnavailable
from jupyter_gpupool.state.store.files import Bytes, Held, Listed
from jupyter_gpupool.state.store.locks import locked

#: Ends the names of files that are not whole yet.
PART = ".part"
#: The file that is locked.
LOCK = "lock"
#: The disk is set to work after this many bytes, so that the last sync has little to wait for.
AHEAD_BYTES = 16 * 1024 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
#: `sync_file_range`: begin to write what is not being written yet.
_SYNC_WRITE = 2
#: `fallocate`: make a hole, and keep the length.
_PUNCH_HOLE = 1 | 2


def failed(error: OSError, where: object) -> NoReturn:
    """Raise what an error of the file system means for the store."""
    if error.errno in _FULL:
        raise StoreFull(
            f"There is no room for the snapshot in {where} ({error.strerror}); "
            f"what was saved before is there.",
            hint="Make room, forget a snapshot and collect (%gpupool snapshots --gc), or save elsewhere.",
        ) from error
    raise StoreUnavailable(
        f"The store of snapshots at {where} cannot be used: {error.strerror or error}.",
        hint="Check the path and its permissions.",
    ) from error


@contextmanager
def translated(where: object, *, writing: bool = False) -> Iterator[None]:
    """Translate errors of the file system, but for a file to read that is not there."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not writing:
            raise
        failed(error, where)


class LocalSource:
    """A file that is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDONLY)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill ``target`` from ``offset`` on."""
        done = 0
        with translated(self._path):
            while done < len(target):
                n = os.preadv(self._fd, [target[done:]], offset + done)
                if n == 0:
                    raise EOFError(f"{self._path} ends at {offset + done}")
                done += n

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


class LocalSink:
    """A file that is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with translated(path, writing=True):
            self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        self._at = self._ahead = 0

    def write(self, data: Bytes) -> None:
        """Write all of ``data``."""
        view, done = memoryview(data), 0
        with translated(self._path):
            while done < len(view):
                done += os.write(self._fd, view[done:])
        self._at += done
        if self._at - self._ahead >= AHEAD_BYTES:
            _begin_to_sync(self._fd, self._ahead, self._at - self._ahead)
            self._ahead = self._at

    def finish(self) -> None:
        """Bring it to the disk."""
        with translated(self._path):
            os.fsync(self._fd)
            os.close(self._fd)
            sync_directory(self._path.parent)

    def discard(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
        with contextlib.suppress(OSError):
            self._path.unlink()


def _begin_to_sync(fd: int, offset: int, nbytes: int) -> None:
    """Set the disk to work; nothing depends on it."""
    call = _system_call("sync_file_range")
    if call is not None:
        call(fd, ctypes.c_int64(offset), ctypes.c_int64(nbytes), _SYNC_WRITE)


def _system_call(name: str) -> Any:
    """Return a function of Linux that Python has no name for; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems have nothing to do there
            raise
    finally:
        os.close(fd)


class LocalFiles:
    """The files of one owner below a directory.

    Parameters
    ----------
    root : Path
        The directory; made (0700) when something is written.
    """

    punches = True

    def __init__(self, root: Path) -> None:
        self.address = str(root)
        self._root = root

    def listing(self, folder: str) -> list[Listed]:
        """List the files of a folder."""
        with translated(self.address):
            try:
                found = os.scandir(self._root / folder)
            except FileNotFoundError:
                return []
            with found:
                return [listed for entry in found if (listed := _listed(entry)) is not None]

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        with translated(self.address):
            fd = os.open(f"{self.address}/{path}", os.O_RDONLY)
            try:
                parts = [os.read(fd, os.fstat(fd).st_size + 1)]
                while parts[-1]:
                    parts.append(os.read(fd, 1 << 20))
                return b"".join(parts)
            finally:
                os.close(fd)

    def open(self, path: str) -> LocalSource:
        """Open a file to read."""
        with translated(self.address):
            return LocalSource(self._root / path)

    def create(self, path: str) -> LocalSink:
        """Begin a new file."""
        return LocalSink(self._made(path))

    def put(self, path: str, data: bytes, *, lasting: bool = True) -> None:
        """Write a small file, whole or not at all."""
        place = self._made(path)
        draft = place.with_name(f"{place.name}-{os.getpid()}-{secrets.token_hex(4)}{PART}")
        try:
            with translated(self.address, writing=True), _written(draft) as fd:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                if lasting:
                    os.fsync(fd)
            with translated(self.address, writing=True):
                draft.replace(place)
                if lasting:
                    sync_directory(place.parent)
        except Exception:
            draft.unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        """Remove a file."""
        with translated(self.address), contextlib.suppress(FileNotFoundError):
            (self._root / path).unlink()

    @contextmanager
    def lock(self, *, shared: bool, wait_seconds: float) -> Iterator[Held]:
        """Hold the store."""
        with translated(self.address):
            fd = os.open(self._made(LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with locked(fd, shared=shared, wait_seconds=wait_seconds) as held:
            yield held

    def punch(self, path: str, ranges: list[tuple[int, int]]) -> bool:
        """Give ranges of a file back to the disk, unless somebody has it mapped."""
        call = _system_call("fallocate")
        if call is None:
            return False
        with translated(self.address):
            fd = os.open(self._root / path, os.O_RDWR | os.O_CLOEXEC)
        with locked(fd, shared=False, wait_seconds=0.0) as held:
            return held is Held.YES and all(
                call(fd, _PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0
                for offset, length in ranges
            )

    def local_path(self, path: str) -> str | None:
        """Return where a file is on this machine."""
        return str(self._root / path)

    def _made(self, path: str) -> Path:
        place = self._root / path
        with translated(self.address):
            if not place.parent.is_dir():
                _make_private(place.parent)
        return place


def _make_private(directory: Path) -> None:
    """Make a directory that only its owner may enter, with those above it."""
    if not directory.parent.is_dir():
        _make_private(directory.parent)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)


@contextmanager
def _written(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _listed(entry: os.DirEntry[str]) -> Listed | None:
    """Describe a file; None for one that vanished since it was listed, or is no file."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    used = getattr(status, "st_blocks", (status.st_size + 511) // 512) * 512
    return Listed(entry.name, status.st_size, used, status.st_mtime)
