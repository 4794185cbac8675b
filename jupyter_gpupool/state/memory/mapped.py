"""Files and memory that are mapped: ``mmap``, and with it numpy's memmap.

Rules of this module: a mapped file is mapped again from the same place; a file that is gone or that is
another one now is said; bytes that are in no file are saved.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory.pointers import buffer_address, bytes_at
from jupyter_gpupool.state.model import FindingKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

#: Memory that processes share has names below this folder, and does not outlive the machine.
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 (nothing is written there)


@dataclass(frozen=True)
class Mapping:
    """A line of the kernel's list of what a process has mapped.

    Attributes
    ----------
    start, stop : int
        Addresses.
    writable, shared : bool
        Whether it can be written, and whether others see that.
    offset : int
        Where it begins in its file.
    path : str
        Its file; empty for memory.
    """

    start: int
    stop: int
    writable: bool
    shared: bool
    offset: int
    path: str


def mapping_at(address: int) -> Mapping | None:
    """Return what is mapped at an address; None where that cannot be told."""
    try:
        with Path("/proc/self/maps").open() as lines:
            for line in lines:
                found = _mapping(line)
                if found.start <= address < found.stop:
                    return found
    except OSError:
        return None
    return None


def _mapping(line: str) -> Mapping:
    fields = line.rstrip("\n").split(maxsplit=5)
    start, stop = (int(part, 16) for part in fields[0].split("-"))
    path = fields[5] if len(fields) > 5 else ""
    path = path if path.startswith("/") and not path.startswith("/dev/zero") else ""
    return Mapping(start, stop, "w" in fields[1], "s" in fields[1], int(fields[2], 16), path)


def reduce_mmap(mapped: mmap.mmap, capturing: Capturing) -> Reduced:
    """Take a mapped file or memory apart."""
    try:
        nbytes, position = len(mapped), mapped.tell()
    except ValueError:
        return make_closed, ()
    address = buffer_address(mapped)
    found = None if address is None else mapping_at(address)
    if address is None or found is None:
        return capturing.lose(mapped, "it cannot be told here what is mapped", "Map the file again.")
    capturing.roots.own(address, nbytes, mapped)
    offset = found.offset + address - found.start
    if not found.path:
        return make_memory, (
            capturing.roots.region(address, nbytes, mapped),
            nbytes,
            position,
            found.writable,
        )
    if found.path.endswith(" (deleted)"):
        number = capturing.roots.region(address, nbytes, mapped)
        reason = "the file that it mapped was deleted: it is memory without a file"
        capturing.note(mapped, FindingKind.CHANGED, reason)
        return make_memory, (number, nbytes, position, found.writable)
    if found.writable and found.shared:
        mapped.flush()
    number = -1
    if not found.shared or found.path.startswith(_SHARED_MEMORY):
        number = capturing.roots.region(address, nbytes, mapped)
    file = (found.path, identity(found.path), offset)
    return make_mapped, (file, nbytes, position, found.writable, found.shared, number)


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells whether a file was written since: its size, and when that was; None without one."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def make_closed() -> mmap.mmap:
    """Make a mapping that has been closed."""
    made = mmap.mmap(-1, 1)
    made.close()
    return made


def make_memory(number: int, nbytes: int, position: int, writable: bool) -> mmap.mmap:
    """Make memory without a file."""
    made = mmap.mmap(-1, nbytes)
    _fill(made, number, nbytes, current().regions.adopt)
    made.seek(position)
    return made


def _fill(made: mmap.mmap, number: int, nbytes: int, adopt: Callable[[int, int, int, Any], bool]) -> None:
    address = buffer_address(made)
    if address is not None and not adopt(number, address, nbytes, made):
        bytes_at(address, nbytes)[:] = current().regions.array(number, nbytes)


def make_mapped(
    file: tuple[str, tuple[int, int] | None, int],
    nbytes: int,
    position: int,
    writable: bool,
    shared: bool,
    number: int,
) -> Any:
    """Map a file again."""
    path, was, offset = file
    now = identity(path)
    if now is None:
        if number < 0:
            hint = "Put the file back, and restore again."
            return current().lost("mmap.mmap", f"the file {path} that it maps is not there", hint)
        made = make_memory(number, nbytes, position, writable)
        current().note(made, FindingKind.CHANGED, f"{path} is not there: it is memory without a file")
        return made
    if now[0] < offset + nbytes:
        reason = f"the file {path} that it maps is shorter than it was"
        return current().lost("mmap.mmap", reason, "Put the file back, and restore again.")
    made = _map(path, nbytes, offset, writable, shared)
    if not shared and number >= 0:
        _fill(made, number, nbytes, current().regions.adopt_over)
    elif now != was:
        current().note(made, FindingKind.CHANGED, f"the file {path} that it maps was written since")
    made.seek(position)
    return made


def _map(path: str, nbytes: int, offset: int, writable: bool, shared: bool) -> mmap.mmap:
    access = mmap.ACCESS_READ if not writable else mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    with Path(path).open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
        return mmap.mmap(file.fileno(), nbytes, access=access, offset=offset)
