"""Machine-wide locks: a device belongs to one agent, whichever user runs it.

Rules of this module: every user computes the same path and can lock the file, so it is readable by all and
opened for reading only (``fs.protected_regular`` forbids opening others' files with ``O_CREAT`` in a sticky
directory); who has a lock is found out from the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from jupyter_gpupool.protocol.paths import lock_dir

_UNKNOWN = "another pool"


class DeviceLocks:
    """The device locks that this agent holds, until it ends.

    Parameters
    ----------
    directory : Path or None
        Where the lock files lie; None for the machine's common place.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or lock_dir()
        self._held: dict[str, int] = {}

    def take(self, device_id: str) -> str:
        """Lock a device.

        Returns
        -------
        str
            Empty when it is ours now; else who has it ("ann's pool (pid 4711)"), or why nobody can tell.
        """
        if device_id in self._held:
            return ""
        try:
            handle = self._open(device_id)
        except OSError as error:
            return f"{_UNKNOWN} (its lock cannot be opened: {error.strerror}: {error.filename})"
        if _lock(handle):
            self._held[device_id] = handle
            return ""
        try:
            return who_locks(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Give all devices back."""
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()

    def _open(self, device_id: str) -> int:
        """Open the lock file of a device, made if it is missing."""
        _shared_directory(self._directory)
        path = self._directory / f"{re.sub(r'[^A-Za-z0-9._-]', '_', device_id)}.lock"
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(handle, 0o644)
            return handle
        return os.open(path, flags)


def _shared_directory(directory: Path) -> None:
    """Make the directory for all users (mode 1777) if it is missing; refuse a symlink in its place."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        if not stat.S_ISDIR(directory.lstat().st_mode):
            raise NotADirectoryError(20, "not a plain directory", str(directory)) from None
        return
    directory.chmod(0o1777)


def _lock(handle: int) -> bool:
    """Lock an open file unless somebody else has."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def who_locks(handle: int) -> str:
    """Say whose process has the lock on an open file."""
    pid = locking_pid(handle)
    try:
        status = Path(f"/proc/{pid}/status").read_text() if pid else ""
    except OSError:
        status = ""
    uid = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    return f"{_user(int(uid[1]))}'s pool (pid {pid})" if uid else _UNKNOWN


def locking_pid(handle: int) -> int | None:
    """Return the process that has the lock on an open file; None when it cannot be seen from here."""
    status = os.fstat(handle)
    wanted = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        match = re.match(r"\d+: FLOCK +\S+ +\S+ +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", line)
        if match and (int(match[2], 16), int(match[3], 16), int(match[4])) == wanted:
            return int(match[1]) or None
    return None


def _user(uid: int) -> str:
    """Return a user's name, or "uid N" where it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
