"""Who uses the MPS daemon of each GPU, written down for whoever comes next.

Rules of this module: one file and one lock for each GPU in the runtime directory; it is written before a
daemon is started and removed when nothing of it is left, so that an agent that was killed leaves nothing
that the next one does not find.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.mps.places import Place, key


class Numbers(msgspec.Struct, kw_only=True, frozen=True):
    """What a client may use at most."""

    #: Percent of the device's threads, 1 to 100.
    percentage: int
    #: MiB of the device's memory.
    memory_mib: int


class Use(msgspec.Struct, kw_only=True):
    """One lease on a daemon."""

    uid: int
    holder: ProcessMark
    #: What its next client gets.
    numbers: Numbers
    #: What its holder got when CUDA started in it; None as long as it has not.
    started: Numbers | None = None


class DaemonRecord(msgspec.Struct, kw_only=True):
    """The daemon of one GPU, and who uses it."""

    uuid: str
    pipes: str
    logs: str
    #: True when we started it, so that it is ours to end.
    own: bool
    multiuser: bool
    #: True when other users may pass through its directory.
    open_to_others: bool = False
    #: The daemon's process, once it is known; None also for an administrator's.
    daemon: ProcessMark | None = None
    #: What an administrator's daemon had before us; a limit of None is none.
    before_percentage: float | None = None
    before_memory_mib: int | None = None
    #: Whole memory of the GPU, MiB.
    whole_mib: int = 0
    #: Leases by their ids.
    leases: dict[str, Use] = {}

    @property
    def place(self) -> Place:
        """Return its directories."""
        return Place(pipes=Path(self.pipes), logs=Path(self.logs))

    def largest(self) -> Numbers | None:
        """Return the least limits that keep no lease from what it may use; None without leases."""
        if not self.leases:
            return None
        uses = self.leases.values()
        return Numbers(
            percentage=max(use.numbers.percentage for use in uses),
            memory_mib=max(use.numbers.memory_mib for use in uses),
        )

    def other_users(self, uid: int) -> dict[str, int]:
        """Return the leases of other users than this one, with their uids."""
        return {lease_id: use.uid for lease_id, use in self.leases.items() if use.uid != uid}


class Ledger:
    """All daemons that leases of this runtime directory use.

    Parameters
    ----------
    runtime : Path
        The runtime directory.
    """

    def __init__(self, runtime: Path) -> None:
        self._folder = runtime / "mps"

    def _path(self, uuid: str) -> Path:
        return self._folder / f"{key(uuid)}.json"

    @contextlib.contextmanager
    def locked(self, uuid: str) -> Iterator[None]:
        """Be the only one, thread or process, that changes what is about a GPU.

        The lock's file goes when nothing is written about the GPU: whoever got hold of a removed one takes
        the new one.
        """
        path = self._path(uuid).with_suffix(".lock")
        handle = self._lock(path)
        try:
            yield
        finally:
            if not self._path(uuid).exists():
                path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # other GPUs have files in it
                    self._folder.rmdir()
            os.close(handle)

    def _lock(self, path: Path) -> int:
        import fcntl

        while True:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:  # somebody else removed the folder just now
                continue
            fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(handle).st_ino:
                    return handle
            os.close(handle)

    def read(self, uuid: str) -> DaemonRecord | None:
        """Return what is written about a GPU; None when nothing is, or it cannot be read."""
        return _read(self._path(uuid))

    def write(self, record: DaemonRecord) -> None:
        """Write what there is about a GPU, whole or not at all."""
        path = self._path(record.uuid)
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(record))
        draft.replace(path)

    def forget(self, uuid: str) -> None:
        """Remove what is written about a GPU."""
        self._path(uuid).unlink(missing_ok=True)

    def all(self) -> list[DaemonRecord]:
        """Return what is written about all GPUs."""
        found = [_read(path) for path in sorted(self._folder.glob("*.json"))]
        return [record for record in found if record is not None]


def _read(path: Path) -> DaemonRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=DaemonRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
