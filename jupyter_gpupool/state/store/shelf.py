"""What the parts of one opened store share.

Rule of this module: what it remembers of the files can be forgotten at any time.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from dataclasses import dataclass, field

from jupyter_gpupool.state.store.catalogue import Catalogue
from jupyter_gpupool.state.store.files import Files
from jupyter_gpupool.state.store.index import Index

SNAPSHOTS = "snapshots"
SNAPSHOT_ENDING = ".snapshot"
#: Where packs are named that will be deleted, on stores that cannot be locked.
CONDEMNED = "condemned"
#: What a disk is taken to write before it was measured, bytes a second.
FIRST_GUESS = 1.0e9
#: So many chunks are remembered by what they hashed to; a chunk takes about 200 bytes of memory.
SEEN_CHUNKS = 500_000


class Seen:
    """Ids of chunks by a quick hash, within this process only.

    The quick hash is seeded by chance, so that nothing can be made to look like something else.
    """

    def __init__(self) -> None:
        self.seed = secrets.randbits(64)
        self._ids: dict[bytes, bytes] = {}

    def get(self, quick: bytes) -> bytes | None:
        """Return the id of a chunk that hashed to ``quick``."""
        return self._ids.get(quick)

    def put(self, quick: bytes, chunk: bytes) -> None:
        """Remember a chunk."""
        if len(self._ids) >= SEEN_CHUNKS:
            self._ids = {}
        self._ids[quick] = chunk


@dataclass(kw_only=True, slots=True)
class Shelf:
    """One owner's part of a store.

    Attributes
    ----------
    files : Files
        The owner's files.
    owner : str
        Whose snapshots they are.
    keys : tuple of bytes
        The first one signs; any of them verifies.
    quota_bytes : int or None
        How much all snapshots may take.
    grace_seconds : float
        How old something must be before it is taken away, on stores that cannot be locked.
    """

    files: Files
    owner: str
    keys: tuple[bytes, ...]
    quota_bytes: int | None = None
    grace_seconds: float = 3600.0
    index: Index = field(init=False)
    manifests: Catalogue = field(init=False)
    seen: Seen = field(default_factory=Seen)
    disk_speed: float = FIRST_GUESS
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _last: int = 0

    def __post_init__(self) -> None:
        self.index = Index(self.files)
        self.manifests = Catalogue(self.files, SNAPSHOTS, SNAPSHOT_ENDING)

    def refresh(self, *, fresh: bool = False) -> None:
        """Look at what packs there are now; ``fresh`` believes no copy of their indexes."""
        with self._mutex:
            self.index.refresh(fresh=fresh)

    def mint(self, newest: str = "") -> str:
        """Return a new id: 12 digits of milliseconds, later than those of ``newest``, and 10 of chance."""
        with self._mutex:
            after = int(newest[:12], 16) if newest else 0
            self._last = max(time.time_ns() // 1_000_000, self._last + 1, after + 1)
            return f"{self._last:012x}{secrets.token_hex(5)}"

    def measured(self, nbytes: int, seconds: float) -> None:
        """Take in how fast the disk was."""
        self.disk_speed += (nbytes / max(seconds, 1e-3) - self.disk_speed) / 2


def snapshot_path(snapshot: str) -> str:
    """Return the path of the file of a snapshot."""
    return f"{SNAPSHOTS}/{snapshot}{SNAPSHOT_ENDING}"


def cores() -> int:
    """Return how many threads hash, compress or read at once."""
    if hasattr(os, "sched_getaffinity"):
        return min(4, len(os.sched_getaffinity(0)))
    return min(4, os.cpu_count() or 1)
