"""Giving back what no snapshot needs any more.

Rules of this module: nothing is taken away while it is not certain what every snapshot needs; on stores that
can be locked nobody writes meanwhile, on others what is young is left alone, and what goes is announced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from jupyter_gpupool.state.errors import StateError
from jupyter_gpupool.state.store.files import Held
from jupyter_gpupool.state.store.formats import (
    PAGE_BYTES,
    Entry,
    PackIndex,
    held_chunks,
    open_manifest,
    seal_index,
)
from jupyter_gpupool.state.store.index import INDEX_ENDING, PACK_ENDING, PACKS, index_path, pack_path
from jupyter_gpupool.state.store.local import PART
from jupyter_gpupool.state.store.reader import Reader
from jupyter_gpupool.state.store.rewriting import rewrite
from jupyter_gpupool.state.store.shelf import CONDEMNED, SNAPSHOT_ENDING, SNAPSHOTS, Shelf

#: Less than this that nobody needs in a pack is left there.
WORTH_BYTES = 256 * 1024


@dataclass
class Collected:
    """What collecting has done.

    Attributes
    ----------
    freed_bytes : int
        Bytes that were given back.
    packs : int
        Packs that were deleted, or made smaller.
    parts : int
        Files of saves that never came to their end, which were deleted.
    reason : str
        Why less was done than could be, as a sentence; empty when everything was.
    """

    freed_bytes: int = 0
    packs: int = 0
    parts: int = 0
    reason: str = ""
    seconds: float = field(default=0.0)


def collect(shelf: Shelf, *, wait_seconds: float) -> Collected:
    """Give back what no snapshot of an owner needs."""
    done, start = Collected(), time.perf_counter()
    with shelf.files.lock(shared=False, wait_seconds=wait_seconds) as held:
        if held is Held.BUSY:
            done.reason = "A snapshot is being written; collect again when it is done."
        else:
            _Collector(shelf, done, locked=held is Held.YES).run()
    done.seconds = time.perf_counter() - start
    return done


def needed_chunks(shelf: Shelf) -> set[bytes]:
    """Return the ids of all chunks that any snapshot needs.

    Raises
    ------
    StateError
        If that is not certain, because a snapshot cannot be read.
    """
    needed: set[bytes] = set()
    insides: set[tuple[bytes, ...]] = set()
    for name, data in shelf.manifests.read().items():
        manifest, _ = open_manifest(data, name.removesuffix(SNAPSHOT_ENDING), shelf.keys)
        inside = tuple(manifest.details)
        if inside not in insides:
            insides.add(inside)
            needed.update(inside)
            with Reader(shelf, manifest, trusted=False) as reader:
                needed |= held_chunks(reader.read(inside))
    return needed


class _Collector:
    """One collection."""

    def __init__(self, shelf: Shelf, done: Collected, *, locked: bool) -> None:
        self._shelf, self._files, self._done, self._locked = shelf, shelf.files, done, locked
        self._now = time.time()
        self._indexes: dict[str, list[str]] = {}

    def run(self) -> None:
        """Collect."""
        self._shelf.refresh()
        for entry in self._shelf.index.listing:
            if entry.name.endswith(INDEX_ENDING):
                self._indexes.setdefault(entry.name.rpartition("-")[0], []).append(entry.name)
        self._drop_parts()
        try:
            needed = needed_chunks(self._shelf)
        except StateError as error:
            self._done.reason = (
                f"{error.message} What it needs is not known, so nothing else was given back; "
                f"forget that snapshot first."
            )
            return
        index = self._shelf.index
        used = {entry.name: entry.used_bytes for entry in index.listing}
        for pack, content in list(index.packs.items()):
            kept = [entry for entry in content.entries if self._keeps(pack, entry, needed)]
            self._pack(pack, content, kept, used.get(f"{pack}{PACK_ENDING}", 0))
        self._drop_unreadable(needed)
        self._shelf.refresh()

    def _keeps(self, pack: str, entry: Entry, needed: set[bytes]) -> bool:
        place = self._shelf.index.get(entry.id)
        return entry.id in needed and place is not None and place.pack == pack

    def _pack(self, pack: str, content: PackIndex, kept: list[Entry], used_bytes: int) -> None:
        """Do with one pack what is right."""
        if not kept:
            if self._may_go(pack):
                self._delete(pack)
                self._done.freed_bytes += used_bytes
                self._done.packs += 1
            return
        self._pardon(pack)
        dead = sum(entry.stored for entry in content.entries) - sum(entry.stored for entry in kept)
        if dead >= WORTH_BYTES and self._locked:
            self._shrink(pack, content, kept, dead)

    def _shrink(self, pack: str, content: PackIndex, kept: list[Entry], dead: int) -> None:
        """Take chunks out of a pack, in place where the file system has holes."""
        generation = self._shelf.index.generations[pack]
        if self._files.punches:
            self._files.put(index_path(pack, generation + 1), seal_index(PackIndex(content.pack_bytes, kept)))
            self._files.remove(index_path(pack, generation))
            if self._files.punch(pack_path(pack), list(_holes(content.pack_bytes, kept))):
                self._done.freed_bytes += dead
                self._done.packs += 1
                return
        if dead * 2 >= content.pack_bytes:
            self._done.freed_bytes += rewrite(self._shelf, pack, content, kept)
            self._delete(pack)
            self._done.packs += 1

    def _drop_unreadable(self, needed: set[bytes]) -> None:
        """Delete packs without a readable index, once everything that is needed is elsewhere."""
        index = self._shelf.index
        if all(chunk in index for chunk in needed):
            for pack in index.damaged.keys() - index.packs.keys():
                if self._may_go(pack):
                    self._delete(pack)
                    self._done.packs += 1

    def _replace_index(self, pack: str, generation: int, content: PackIndex) -> None:
        """Write the next generation of an index, then remove those before it."""
        self._files.put(index_path(pack, generation + 1), seal_index(content))
        for name in self._indexes.get(pack, []):
            self._files.remove(f"{PACKS}/{name}")
        self._indexes[pack] = [f"{pack}-{generation + 1}{INDEX_ENDING}"]

    def _may_go(self, pack: str) -> bool:
        """Say whether a pack that nobody needs can be deleted: at once where nobody writes now."""
        if self._locked:
            return True
        age = {entry.name: self._now - entry.changed_seconds for entry in self._files.listing(CONDEMNED)}
        if pack not in age:
            written = int(pack[:12], 16) / 1000
            if self._now - written > self._shelf.grace_seconds:
                self._files.put(f"{CONDEMNED}/{pack}", b"")
            return False
        return age[pack] > self._shelf.grace_seconds

    def _pardon(self, pack: str) -> None:
        if not self._locked:
            self._files.remove(f"{CONDEMNED}/{pack}")

    def _delete(self, pack: str) -> None:
        """Delete a pack: its index first, so that no reader believes in what is gone."""
        for name in self._indexes.get(pack, []):
            self._files.remove(f"{PACKS}/{name}")
        self._files.remove(pack_path(pack))
        if not self._locked:
            self._files.remove(f"{CONDEMNED}/{pack}")

    def _drop_parts(self) -> None:
        """Delete what saves that were killed have left."""
        index = self._shelf.index
        known = {f"{pack}{PACK_ENDING}" for pack in index.generations}
        for folder, listing in ((PACKS, index.listing), (SNAPSHOTS, self._files.listing(SNAPSHOTS))):
            for entry in listing:
                orphan = entry.name.endswith(PACK_ENDING) and entry.name not in known
                young = not self._locked and self._now - entry.changed_seconds < self._shelf.grace_seconds
                if (orphan or entry.name.endswith(PART)) and not young:
                    self._files.remove(f"{folder}/{entry.name}")
                    self._done.parts += 1
                    self._done.freed_bytes += entry.used_bytes


def _holes(pack_bytes: int, kept: list[Entry]) -> Iterator[tuple[int, int]]:
    """Yield the whole pages of a pack that no kept chunk touches, as (offset, length)."""
    at = PAGE_BYTES  # what the file is, is kept
    for entry in sorted(kept, key=lambda entry: entry.offset):
        end = entry.offset // PAGE_BYTES * PAGE_BYTES
        if end > at:
            yield at, end - at
        at = max(at, -(-(entry.offset + entry.stored) // PAGE_BYTES) * PAGE_BYTES)
    end = pack_bytes // PAGE_BYTES * PAGE_BYTES
    if end > at:
        yield at, end - at
