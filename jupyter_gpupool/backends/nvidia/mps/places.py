"""Where the pipes and logs of our daemons lie, and where an administrator's do.

Rules of this module: a directory that we use belongs to us (or to root, for an administrator's daemon) and
only we may write to it; paths are short enough for a unix socket, as the control program fails with a
misleading message otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.nvidia.mps.errors import MPSError
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import private_directory

#: Where CUDA looks when nothing else is said.
DEFAULT_PIPES = Path("/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's own default
#: Where its daemon logs when nothing else is said.
DEFAULT_LOGS = Path("/var/log/nvidia-mps")
#: Longest name that the daemon gives to a socket in its directory.
_LONGEST_NAME = "/control_privileged"
#: In the pipe directory: the daemon's process.
PID_FILE = "nvidia-cuda-mps-control.pid"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The two directories of a daemon."""

    pipes: Path
    logs: Path


def key(uuid: str) -> str:
    """Return a short name for a GPU, the same for ever."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def own_place(runtime: Path, uuid: str, *, open_to_others: bool) -> Place:
    """Return where our daemon of a GPU lies (not created).

    Parameters
    ----------
    runtime : Path
        The runtime directory.
    uuid : str
        The GPU.
    open_to_others : bool
        True where holders of other users have to reach it: they may pass through it, and nothing else.
    """
    base = runtime / "mps"
    if (
        open_to_others
        or len(os.fsencode(base / key(uuid) / "p")) + len(_LONGEST_NAME) > names.MAX_SOCKET_PATH
    ):
        digest = hashlib.sha256(os.fsencode(runtime)).hexdigest()[:12]
        kind = "mps-all" if open_to_others else "mps"
        base = _short() / f"jgp-{kind}-{os.getuid()}-{digest}"
    return Place(pipes=base / key(uuid) / "p", logs=base / key(uuid) / "l")


def _short() -> Path:
    """Return where directories with short paths are made: root's own place where there is one.

    A service may have temporary files of its own (PrivateTmp), in which holders would find no daemon.
    """
    run = Path("/run")
    return run if os.getuid() == 0 and os.access(run, os.W_OK) else Path("/tmp")  # noqa: S108 - checked


def make(place: Place, *, open_to_others: bool) -> None:
    """Create the directories of our daemon, and check that nobody else can write there.

    Raises
    ------
    UnsafeDirectory
        If one of them is somebody else's.
    """
    for path in (place.pipes.parent.parent, place.pipes.parent, place.pipes, place.logs):
        if open_to_others:
            _passage(path)
        else:
            private_directory(path, variable=names.ENV_RUNTIME_DIR)


def _passage(path: Path) -> None:
    """Create a directory that others may pass through, or check the one that is there."""
    path.mkdir(mode=0o711, parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise MPSError(f"{path} is not a directory of ours alone.", hint="Remove it.")
    path.chmod(0o711)  # whatever the umask took


def remove(place: Place) -> None:
    """Remove the directories of our daemon, and the one around them if it is empty."""
    shutil.rmtree(place.pipes.parent, ignore_errors=True)
    with contextlib.suppress(OSError):
        place.pipes.parent.parent.rmdir()


def administrators(environment: Mapping[str, str]) -> Place | None:
    """Return where an administrator's daemon lies, if its directory is there; it may still be dead.

    Only root's and our own directories count: others could put one into the temporary directory.
    """
    pipes = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or DEFAULT_PIPES)
    logs = Path(environment.get("CUDA_MPS_LOG_DIRECTORY") or DEFAULT_LOGS)
    try:
        status = pipes.lstat()
        present = (pipes / "control").exists()
    except OSError:
        return None
    trusted = stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.getuid())
    return Place(pipes=pipes, logs=logs) if present and trusted else None


def owner(place: Place) -> int | None:
    """Return which user a daemon belongs to, by its directory; None when it is gone."""
    try:
        return place.pipes.stat().st_uid
    except OSError:
        return None
