"""The keys that snapshots are signed with and known by: the pool's for this owner, where there is a pool.

Rules of this module: no pool is started, and none is waited for longer than a moment; a key that a pool once
gave is remembered (0600), so that what was saved with it can be restored while the pool is away. The owner's
own key, which the store makes, is not touched here.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from pathlib import Path

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.asking import asking
from jupyter_gpupool.protocol import names, paths

#: How long a pool may take to answer, seconds.
ASK_SECONDS = 1.0
_FILE = "pool-keys.json"
#: Of how many pools the keys are remembered.
_MOST = 16


def pool_is_near() -> bool:
    """Tell, without asking anybody or importing anything, whether there may be a pool."""
    return bool(os.environ.get(names.ENV_URL)) or (paths.runtime_dir() / names.POOL_FILE).exists()


def keys() -> tuple[bytes, ...]:
    """Return the pool's key, and those that pools gave before; empty when there never was a pool."""
    known = _remembered()
    present = _of_pool() if pool_is_near() else None
    if present is None:
        return tuple(known)
    found = [present, *(key for key in known if key != present)][:_MOST]
    if found != known:
        _remember(found)
    return tuple(found)


def _of_pool() -> bytes | None:
    try:
        with asking(ASK_SECONDS) as client:
            return client.snapshot_key()
    except (GPUPoolError, OSError):
        return None  # an older pool, or one that is away: what it gave before still counts


def _path() -> Path:
    return paths.data_dir() / _FILE


def _remembered() -> list[bytes]:
    try:
        return [base64.b64decode(text) for text in json.loads(_path().read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _remember(found: list[bytes]) -> None:
    """Write the keys down, whole or not at all; where that fails the pool is asked again next time."""
    path = _path()
    with contextlib.suppress(OSError, GPUPoolError):
        paths.private_directory(path.parent, variable=names.ENV_DATA_DIR)
        paths.write_private(path, json.dumps([base64.b64encode(key).decode() for key in found]).encode())
