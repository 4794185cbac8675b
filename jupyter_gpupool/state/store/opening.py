"""Finding the store that an address means.

Rules of this module: an address without a scheme is a directory of this machine; every owner has a folder of
his own in a store; his own key always verifies, also where a pool gives another one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.paths import data_dir, is_local, os_user
from jupyter_gpupool.state.errors import StoreUnavailable
from jupyter_gpupool.state.store.files import Files
from jupyter_gpupool.state.store.keys import KEY_BYTES, check, own_key
from jupyter_gpupool.state.store.local import LocalFiles
from jupyter_gpupool.state.store.store import Store

#: In the data directory: the store that is used when none is named, and its owner's key.
SNAPSHOTS_FOLDER = "snapshots"
KEY_FILE = "snapshots.key"


def open_store(
    url: str = "",
    *,
    owner: str = "",
    keys: Sequence[bytes] = (),
    quota_bytes: int | None = None,
    grace_seconds: float = 3600.0,
    options: Mapping[str, Any] | None = None,
) -> Store:
    """Open a store of snapshots.

    Parameters
    ----------
    url : str
        A directory, or what fsspec understands; empty for the data directory. ``s3://bucket/prefix`` is tried
        in the tests against a server of that protocol; ``gs:`` and others go the same way, and are not tried.
    owner : str
        Whose snapshots; empty for this process's user.
    keys : sequence of bytes
        Keys of 32 bytes that somebody else keeps for the owner, such as a pool: the first one signs. The
        owner's own key, in his data directory, always verifies, and signs where there is no other.
    quota_bytes : int, optional
        What all snapshots of the owner may take.
    grace_seconds : float
        On stores that cannot be locked, what is younger is never collected.
    options : mapping, optional
        For the driver of an object store: endpoint, credentials.

    Raises
    ------
    StoreUnavailable
        If it cannot be used, or its driver is not installed.
    """
    owner = owner or os_user()
    given = [check(key, f"the owner {owner}") for key in keys]
    return Store(
        _files(url, owner, dict(options or {})),
        owner=owner,
        keys=[*given, own_key(data_dir() / KEY_FILE)],
        quota_bytes=quota_bytes,
        grace_seconds=grace_seconds,
    )


def memory_store(owner: str = "") -> Store:
    """Return a new store in the memory of this process: gone when it is closed."""
    from fsspec.implementations.memory import MemoryFileSystem

    from jupyter_gpupool.state.store.remote import MemoryFiles

    files = MemoryFiles(MemoryFileSystem(), f"/jupyter_gpupool/{secrets.token_hex(8)}")
    return Store(files, owner=owner or os_user(), keys=[secrets.token_bytes(KEY_BYTES)])


def _files(url: str, owner: str, options: dict[str, Any]) -> Files:
    folder = quote(owner, safe="@+=~").replace(".", "%2E")
    if not url:
        return LocalFiles(data_dir() / SNAPSHOTS_FOLDER / folder)
    scheme = urlsplit(url).scheme
    if is_local(url):
        path = url.removeprefix(f"{scheme}://") if scheme else url
        return LocalFiles(Path(path).expanduser().absolute() / folder)
    return _remote(url, scheme, folder, options)


def _remote(url: str, scheme: str, folder: str, options: dict[str, Any]) -> Files:
    import fsspec

    from jupyter_gpupool.state.store.remote import RemoteFiles

    parts = urlsplit(url)
    address = f"{scheme}://{parts.hostname or ''}{parts.path}".rstrip("/")
    try:
        system, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise StoreUnavailable(
            f"The driver for {scheme}: is not installed here ({error}).",
            hint=f"Install it with `pip install 'jupyter_gpupool[{scheme}]'`.",
        ) from error
    except ValueError as error:
        raise InvalidValue(
            f"{address} is no address of a store: {error}.", hint="Name a directory, or s3://BUCKET/FOLDER."
        ) from error
    system.use_listings_cache = False
    return RemoteFiles(system, f"{root}/{folder}", f"{address}/{folder}")
