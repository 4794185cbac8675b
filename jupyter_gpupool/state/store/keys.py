"""The owner's keys, which manifests are signed with.

Rules of this module: a key file is 0600 and appears whole; the first key signs, and any of them verifies.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.state.errors import StoreUnavailable

#: Bytes of a key.
KEY_BYTES = 32


def own_key(path: Path) -> bytes:
    """Return the key in a file, made (0600) by whoever asks first.

    Raises
    ------
    StoreUnavailable
        If others may read the file, or it does not hold a key.
    """
    if not path.exists():
        _make(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if hasattr(os, "getuid") and mode & 0o077:
        raise StoreUnavailable(
            f"The key of your snapshots, {path}, can be read by others (mode {mode:o}).",
            hint=f"Run `chmod 600 {path}`, and restore only snapshots that you know.",
        )
    return check(path.read_bytes(), str(path))


def check(key: bytes, where: str) -> bytes:
    """Return a key if it is one."""
    if len(key) != KEY_BYTES:
        raise InvalidValue(
            f"The key of {where} has {len(key)} bytes, and needs {KEY_BYTES}.",
            hint="Put the right key there; without it, snapshots that were written with it need --trust.",
        )
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all, and only the first one wins
    finally:
        draft.unlink()
