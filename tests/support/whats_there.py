"""What of a pool exists on this machine: processes, control groups, files, sockets, limits.

Rule of this module: everything is read from the kernel and the disk, nothing from what the pool says of
itself; only what belongs to one runtime directory, or to leases with given ids, is listed, since other tests
run at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jupyter_gpupool.protocol import names
from tests.support.limits import lives


def processes(runtime: Path, *, besides: Iterable[int] = ()) -> set[str]:
    """List the living processes that were started for a runtime directory: "pid command"."""
    mark = f"{names.ENV_RUNTIME_DIR}={runtime}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in {os.getpid(), *besides}:
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0") and lives(int(entry.name)):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.add(f"{entry.name} {command.strip()[:120]}")
        except OSError:
            continue
    return found


def groups(lease_ids: Iterable[str]) -> set[str]:
    """List the control groups that are named after leases."""
    ids = tuple(lease_ids)
    found = set()
    for path, _, _ in os.walk("/sys/fs/cgroup"):  # groups of others vanish meanwhile: that is no error here
        name = Path(path).name.removeprefix("jupyter_gpupool-")
        if ids and name.startswith(ids):
            found.add(path)
    return found


def files(*directories: Path) -> set[str]:
    """List all files and directories below some."""
    return {
        os.fspath(path.relative_to(directory.parent))
        for directory in directories
        for path in directory.rglob("*")
    }


def sockets(*directories: Path) -> set[str]:
    """List the unix sockets that are bound below directories."""
    found = set()
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        path = line.split(maxsplit=7)[7] if len(line.split(maxsplit=7)) == 8 else ""
        if any(path.startswith(f"{directory}/") for directory in directories):
            found.add(path)
    return found
