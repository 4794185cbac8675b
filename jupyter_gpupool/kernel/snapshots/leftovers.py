"""What a kernel leaves behind for the next one of the same notebook, should it die.

Rules of this module: one small file for each notebook says which snapshot is the newest, and whose process it
was; it goes away when that process ends as somebody wanted it to. It is about this machine only: whether a
process lives can be told nowhere else. What cannot be read or written is not there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.snapshots.where import MOVE_PREFIX, left_file
from jupyter_gpupool.protocol import names, paths

if TYPE_CHECKING:
    from jupyter_gpupool.state.model import Manifest


class Leftover(msgspec.Struct, kw_only=True):
    """The newest snapshot of a notebook, and the process that it is of.

    Attributes
    ----------
    snapshot, name : str
        Its id, and what it is called.
    created_ms : int
        When it was taken: UTC, milliseconds since the epoch.
    total_bytes : int
        Bytes of all that it holds.
    restore_seconds : float
        About how long it takes to restore it.
    pid : int
        The kernel's process.
    started : str
        When that began, as the system says: another process may get the number later.
    """

    snapshot: str
    name: str
    created_ms: int
    total_bytes: int
    restore_seconds: float
    pid: int
    started: str


def write(notebook: str, leftover: Leftover) -> None:
    """Leave something behind."""
    path = left_file(notebook)
    with contextlib.suppress(OSError, GPUPoolError):
        paths.private_directory(path.parent.parent, variable=names.ENV_DATA_DIR)
        paths.private_directory(path.parent, variable=names.ENV_DATA_DIR)
        paths.write_private(path, msgspec.json.encode(leftover))


def remove(notebook: str, pid: int | None = None) -> None:
    """Leave nothing behind; with ``pid``, only what that process left."""
    if pid is None or ((found := read(notebook)) is not None and found.pid == pid):
        with contextlib.suppress(OSError):
            left_file(notebook).unlink()


def read(notebook: str) -> Leftover | None:
    """Return what was left for a notebook; None when there is nothing."""
    try:
        return msgspec.json.decode(left_file(notebook).read_bytes(), type=Leftover)
    except (OSError, msgspec.DecodeError):
        return None


def orphaned(notebook: str) -> Leftover | None:
    """Return what was left for a notebook by a process that is gone; None when there is nothing."""
    found = read(notebook)
    if found is None or started(found.pid) == found.started:
        return None
    return found


def is_last(manifest: Manifest) -> bool:
    """Tell whether a snapshot is the newest of a kernel that nobody has ended on purpose.

    One that a kernel takes along to another node is not: it is looked for there, and nobody is to be asked.
    """
    if manifest.name.startswith(MOVE_PREFIX):
        return False
    found = read(manifest.notebook) if manifest.notebook else None
    return found is not None and found.snapshot == manifest.id


def started(pid: int) -> str:
    """Say when a process began, in the system's own words; empty when there is none, or nobody can tell."""
    try:
        # the name may hold anything, so what comes after its last bracket counts
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    dead = stat[0] in "ZX"
    return "" if dead else f"{boot}:{stat[19]}"
