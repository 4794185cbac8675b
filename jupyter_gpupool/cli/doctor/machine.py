"""Checks of the machine: GPUs, MPS, control groups, filesystems, the clock, other pools.

Rule of this module: where nothing is wanted nothing is wrong: a machine without a GPU is a pool of its CPU.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.cli.doctor.scene import Finding, Scene, Verdict, found_by
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.filesystems import NETWORK_FILESYSTEMS, filesystem_of

_NVIDIA_VENDOR = "0x10de"
_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_PLACES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/wsl/lib",
)
#: A clock that is off by more than this makes certificates and reservations wrong, seconds.
_SKEW_SECONDS = 60.0


def gpus(scene: Scene) -> Finding:
    """Look for GPUs, and say why none is seen."""
    cards = _cards(scene)
    driver = re.search(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", scene.text("/proc/driver/nvidia/version"))
    nodes = sorted((scene.root / "dev").glob("nvidia[0-9]*"))
    wsl = (scene.root / "dev/dxg").exists()
    if not (cards or driver or nodes or wsl):
        return found_by("gpus", Verdict.FINE, "This machine has no NVIDIA GPU; the pool has its processor.")
    if not driver and not wsl:
        other = "nouveau" in scene.text("/proc/modules").split()
        held = " (“nouveau” has the GPU)" if other else ""
        return found_by(
            "gpus",
            Verdict.WRONG,
            f"There are {cards} NVIDIA GPUs, but NVIDIA's driver is not loaded{held}.",
            "Install the driver, then load it: `modprobe nvidia`, or restart the machine.",
        )
    if not nodes and not wsl:
        return found_by(
            "gpus",
            Verdict.WRONG,
            "NVIDIA's driver is loaded, but no /dev/nvidia0 is here.",
            "In a container: start it with the GPUs (`--gpus all`). Else run `nvidia-smi` once as root.",
        )
    return _usable(scene, nodes, driver[1] if driver else "of WSL")


def _cards(scene: Scene) -> int:
    """Count NVIDIA's display and 3D controllers on the bus."""
    count = 0
    for device in (scene.root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        count += vendor == _NVIDIA_VENDOR and kind.startswith("0x03")
    return count


def _usable(scene: Scene, nodes: list[Path], driver: str) -> Finding:
    """See whether we may use the GPUs that are there."""
    closed = [node.name for node in nodes if not _may_use(node, scene.uid)]
    if closed:
        return found_by(
            "gpus",
            Verdict.WRONG,
            f"This user may not open {', '.join(closed)}.",
            "Add the user to the group that may (often “video” or “render”), and log in again.",
        )
    if not any((scene.root / place / _LIBRARY).exists() for place in _LIBRARY_PLACES):
        return found_by(
            "gpus",
            Verdict.WRONG,
            f"The driver is loaded, but its library {_LIBRARY} is not in the usual places.",
            "Install the driver's libraries (packages named libnvidia-compute or nvidia-driver-cuda-libs).",
        )
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        if scene.environment.get(name, "unset") in ("", "-1", "void", "none"):
            return found_by(
                "gpus",
                Verdict.MIND,
                f"{name} hides every GPU from what is started here.",
                f"Unset {name} where the pool is started.",
            )
    return found_by("gpus", Verdict.FINE, f"{len(nodes) or 'The'} GPUs, driver {driver}.")


def _may_use(path: Path, uid: int) -> bool:
    if uid == 0:
        return True
    status = path.stat()
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IRUSR and status.st_mode & stat.S_IWUSR)
    if uid == os.getuid() and status.st_gid in os.getgroups():
        return bool(status.st_mode & stat.S_IRGRP and status.st_mode & stat.S_IWGRP)
    return bool(status.st_mode & stat.S_IROTH and status.st_mode & stat.S_IWOTH)


def mps(scene: Scene) -> Finding:
    """Look for MPS that cannot be reached."""
    if not sorted((scene.root / "dev").glob("nvidia[0-9]*")):
        return found_by("mps", Verdict.FINE, "MPS is not needed: there is no GPU.")
    pipes = scene.environment.get("CUDA_MPS_PIPE_DIRECTORY")
    if pipes and not (scene.root / pipes.lstrip("/") / "control").exists():
        return found_by(
            "mps",
            Verdict.WRONG,
            f"CUDA_MPS_PIPE_DIRECTORY names {pipes}, where no daemon listens: CUDA runs without MPS.",
            "Start it with `nvidia-cuda-mps-control -d`, or unset the variable.",
        )
    places = scene.environment.get("PATH", "").split(os.pathsep)
    if not any((scene.root / it.lstrip("/") / "nvidia-cuda-mps-control").exists() for it in places if it):
        return found_by(
            "mps",
            Verdict.MIND,
            "nvidia-cuda-mps-control is not on PATH: shares of a GPU without MIG are limited softly only.",
            "Install it (it comes with the driver's utilities), or use MIG; see the page on isolation.",
        )
    return found_by("mps", Verdict.FINE, "MPS can be started.")


def control_groups(scene: Scene) -> Finding:
    """Look for control groups that are not delegated to us."""
    groups = ControlGroups(scene.root)
    found = groups.with_controller("memory")
    if found is None:
        return found_by(
            "control groups",
            Verdict.MIND,
            "No control groups with a memory controller are mounted here: limits are soft.",
            "Run the agent on the host, or give its container /sys/fs/cgroup.",
        )
    own = groups.where(found, "memory")
    if own is None or not os.access(own, os.W_OK):
        return found_by(
            "control groups",
            Verdict.MIND,
            "The agent's control group cannot be written by this user: limits are soft.",
            "Start the agent as a service with `Delegate=yes` (docs/deploy has one).",
        )
    given = scene_words(own / ("cgroup.controllers" if found.version == 2 else "cgroup.procs"))
    lacking = [it for it in ("cpu", "memory") if found.version == 2 and it not in given]
    if lacking:
        return found_by(
            "control groups",
            Verdict.MIND,
            f"{' and '.join(lacking)} is not delegated to the agent's control group.",
            "Write `Delegate=cpu memory` into its service, then `systemctl daemon-reload` and restart it.",
        )
    return found_by("control groups", Verdict.FINE, f"Version {found.version}, delegated to this user.")


def scene_words(path: Path) -> list[str]:
    """Return the words of a small file; none where it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def filesystems(scene: Scene) -> Finding:
    """Look for directories of ours on a network filesystem."""
    mounts = scene.text("/proc/mounts")
    for path, variable in ((scene.data, names.ENV_DATA_DIR), (scene.runtime, names.ENV_RUNTIME_DIR)):
        kind = filesystem_of(path, mounts)
        if kind in NETWORK_FILESYSTEMS:
            return found_by(
                "filesystems",
                Verdict.WRONG,
                f"{path} lies on a network filesystem ({kind}), where locks and the journal are not safe.",
                f"Set {variable} to a directory on a local disk.",
            )
    return found_by("filesystems", Verdict.FINE, "The journal and the runtime files lie on local disks.")


def clock(scene: Scene) -> Finding:
    """Look for a clock that went back, or differs from the pool's."""
    if scene.skew_seconds is not None and abs(scene.skew_seconds) > _SKEW_SECONDS:
        word = "ahead of" if scene.skew_seconds > 0 else "behind"
        return found_by(
            "clock",
            Verdict.WRONG,
            f"The pool's clock is {abs(scene.skew_seconds):.0f} s {word} this machine's.",
            "Let both follow a time server: `timedatectl set-ntp true`.",
        )
    newest = max((_written(path) for path in _clock_files(scene)), default=0.0)
    if newest > scene.wall_seconds + _SKEW_SECONDS:
        return found_by(
            "clock",
            Verdict.MIND,
            f"The pool wrote files {newest - scene.wall_seconds:.0f} s ahead of now: the clock was set back.",
            "Let this machine follow a time server: `timedatectl set-ntp true`.",
        )
    return found_by("clock", Verdict.FINE, "The clock agrees with what the pool wrote.")


def _clock_files(scene: Scene) -> Iterator[Path]:
    yield scene.runtime / names.POOL_FILE
    yield from scene.data.glob("*.sqlite*")
    yield from scene.data.glob("*.db*")


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def other_pools(scene: Scene) -> Finding:
    """Look for devices that belong to somebody else's pool."""
    others = {}
    locks = scene.text("/proc/locks")
    for path in sorted(scene.locks.glob("*.lock")):
        pid = _locking(path, locks)
        uid = re.search(r"^Uid:\s+(\d+)", scene.text(f"/proc/{pid}/status"), re.MULTILINE) if pid else None
        if uid and int(uid[1]) != scene.uid:
            others[path.stem] = f"uid {uid[1]} (process {pid})"
    if others:
        whose = "; ".join(f"{device} by {who}" for device, who in others.items())
        return found_by(
            "other pools",
            Verdict.MIND,
            f"Another user's pool manages devices of this machine: {whose}.",
            "Use that pool (its owner can give you a token), or have it stopped.",
        )
    return found_by("other pools", Verdict.FINE, "No other user's pool has devices of this machine.")


def _locking(path: Path, locks: str) -> int | None:
    """Find who has the lock on a file, in the text of /proc/locks."""
    try:
        status = path.stat()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = re.search(rf"FLOCK +\S+ +\S+ +(\d+) {device} ", locks)
    return int(found[1]) if found else None
