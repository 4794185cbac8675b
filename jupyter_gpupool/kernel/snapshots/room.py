"""How much of a disk automatic snapshots may take: they never fill it.

Rule of this module: pure but for one look at the disk; a store elsewhere has limits of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path


def room_bytes(folder: str | None, leave_free: float) -> int | None:
    """Return how many bytes may be written so that a part of the disk stays free.

    Parameters
    ----------
    folder : str or None
        Where snapshots are kept; None for a store that is on no disk of this machine.
    leave_free : float
        The part, 0 to 1.

    Returns
    -------
    int or None
        Bytes, 0 for none at all; None where there is no such limit.
    """
    if folder is None or not leave_free:
        return None
    place = next((it for it in (Path(folder), *Path(folder).parents) if it.is_dir()), None)
    if place is None:
        return None
    disk = shutil.disk_usage(place)
    return max(0, round(disk.free - leave_free * disk.total))
