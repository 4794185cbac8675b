"""On which kind of filesystem something lies: one of this machine, or one that others see, too.

Rule of this module: it reads `/proc/mounts` and nothing else; where there is no such list, nothing is known.
"""

from __future__ import annotations

from pathlib import Path

#: Filesystems that several machines see.
NETWORK_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.cephfs", "fuse.glusterfs", "fuse.s3fs"}
    | {"fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "smb", "smb2"}
    | {"smb3", "smbfs", "virtiofs", "wekafs"}
)
_MOUNTS = Path("/proc/mounts")


def filesystem_of(path: Path, mounts: str) -> str:
    """Return the type of the filesystem that ``path`` lies on, from the text of ``/proc/mounts``."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode().decode("unicode_escape"))
        # the last of two mounts on the same point is the one that is seen
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def network_filesystem(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the network filesystem that ``path`` lies on; empty for a disk of this machine."""
    try:
        text = mounts.read_text()
    except OSError:
        return ""  # no such list on this platform
    kind = filesystem_of(path.resolve(), text)
    return kind if kind in NETWORK_FILESYSTEMS else ""
