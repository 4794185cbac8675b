"""Where an open file is on the disk.

Rule of this module: a path counts only while it is the very file that is open.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def path_of(number: int, name: Any) -> str | None:
    """Find the absolute path of an open file; None where it has none (any more).

    Parameters
    ----------
    number : int
        Its descriptor.
    name : str, bytes, PathLike or int
        What it was opened by: perhaps relative to a directory that is no longer the current one.
    """
    candidates = []
    with suppress(OSError):  # not on Linux
        candidates.append(str(Path(f"/proc/self/fd/{number}").readlink()))
    if not isinstance(name, int):
        candidates.append(os.path.abspath(os.fsdecode(name)))  # noqa: PTH100 (links stay as they are)
    return next((path for path in candidates if _is_open_there(number, path)), None)


def _is_open_there(number: int, path: str) -> bool:
    try:
        return Path(path).is_absolute() and os.path.samestat(os.fstat(number), Path(path).stat())
    except OSError:
        return False


def content_of(number: int, size: int) -> bytes | None:
    """Read all of an open file without moving its place; None where it cannot be read."""
    with suppress(OSError):  # open for writing only
        return os.pread(number, size, 0)
    with suppress(OSError):
        return Path(f"/proc/self/fd/{number}").read_bytes()
    return None
