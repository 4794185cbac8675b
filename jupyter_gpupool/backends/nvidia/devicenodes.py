"""Whether a process could open another device than its own: what makes a device's borders hard.

Rules of this module: it only looks; what cannot be looked at counts as open.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.procfs import read_text

#: /dev/nvidia0, and the files by which MIG instances are opened.
_GPU_NODE = re.compile(r"nvidia\d+")
_INSTANCE_NODE = re.compile(r"nvidia-cap\d+")
#: A MIG instance is opened through two of those: of its GPU instance and of its compute instance.
_OWN_INSTANCE_NODES = 2
#: Files of the same kind that open no instance (configuration and monitoring).
_NO_INSTANCE = frozenset({"nvidia-cap1", "nvidia-cap2"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who a process is to the file system.

    Attributes
    ----------
    uid : int
        Effective user.
    groups : frozenset of int
        Effective and supplementary groups.
    """

    uid: int
    groups: frozenset[int] = frozenset()


#: Somebody without any rights of his own.
ANYBODY = Identity(uid=-1)


def identity(pid: int, proc: Path = Path("/proc")) -> Identity | None:
    """Read who a process is; None if it is gone."""
    fields = {}
    for line in (read_text(proc / str(pid) / "status") or "").splitlines():
        name, _, rest = line.partition(":")
        fields[name] = rest.split()
    try:
        groups = {int(fields["Gid"][1]), *map(int, fields.get("Groups", []))}
        return Identity(uid=int(fields["Uid"][1]), groups=frozenset(groups))
    except (KeyError, IndexError, ValueError):
        return None


def open_besides(who: Identity, dev: Path = Path("/dev"), *, instance: bool = False) -> str:
    """Say by what a process could reach another device than its own, one clause; empty if by nothing.

    Parameters
    ----------
    who : Identity
        The process.
    dev : Path
        Its device files: ``/proc/PID/root/dev``.
    instance : bool
        True where its own device is a MIG instance.
    """
    if who.uid == 0:
        return "the holder runs as root"
    try:
        gpus = [path for path in sorted(dev.iterdir()) if _GPU_NODE.fullmatch(path.name)]
        caps = dev / "nvidia-caps"
        instances = sorted(caps.iterdir()) if instance and caps.is_dir() else []
    except OSError:
        return "its device files cannot be looked at"
    if not gpus:  # WSL has one file for all GPUs
        return "there are no device files of single GPUs that could be closed"
    may_open = [path for path in gpus if _may_open(path, who)]
    if len(may_open) > 1:
        return f"{' and '.join(str(Path('/dev', path.name)) for path in may_open[:2])} are open to it"
    named = [path for path in instances if _INSTANCE_NODE.fullmatch(path.name)]
    of_instances = [path for path in named if path.name not in _NO_INSTANCE and _may_open(path, who)]
    if len(of_instances) > _OWN_INSTANCE_NODES:
        return "other MIG instances' files in /dev/nvidia-caps are open to it"
    return ""


def holder_nodes(pid: int, proc: Path = Path("/proc")) -> Path:
    """Return the device files that a process sees."""
    return proc / str(pid) / "root" / "dev"


def _may_open(path: Path, who: Identity) -> bool:
    """Say whether a process may read a file, by its owner, group and mode."""
    try:
        status = path.stat()
    except OSError:
        return False  # it went away
    if status.st_uid == who.uid:
        return bool(status.st_mode & stat.S_IRUSR)
    if status.st_gid in who.groups:
        return bool(status.st_mode & stat.S_IRGRP)
    return bool(status.st_mode & stat.S_IROTH)
