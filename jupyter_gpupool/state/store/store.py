"""An owner's snapshots: the door to this package.

Rules of this module: a name stands for the newest snapshot that has it, an id for exactly one; what only
one of the methods needs is imported by that one, for a restore waits for every import.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpupool.state.errors import NoSuchSnapshot, StateError, StoreUnavailable
from jupyter_gpupool.state.model import Manifest
from jupyter_gpupool.state.store.files import Files, Held
from jupyter_gpupool.state.store.formats import open_manifest, require_trust
from jupyter_gpupool.state.store.index import PACK_ENDING, PACKS
from jupyter_gpupool.state.store.names import is_id, no_such, tidied
from jupyter_gpupool.state.store.reader import Reader
from jupyter_gpupool.state.store.shelf import SNAPSHOT_ENDING, SNAPSHOTS, Shelf, snapshot_path

if TYPE_CHECKING:
    from jupyter_gpupool.state.store.collecting import Collected
    from jupyter_gpupool.state.store.retention import Retention
    from jupyter_gpupool.state.store.verifying import Damage
    from jupyter_gpupool.state.store.writer import Writer
    from jupyter_gpupool.state.store.writing import WriteOptions

#: So long a save waits for a collection to end, seconds.
BEGIN_SECONDS = 60.0
#: So long a collection waits for saves to end, seconds.
COLLECT_SECONDS = 10.0

#: `Store.list` is a method, so lists have other names below it.
Manifests = list[Manifest]
Damages = list["Damage"]
_Read = list[tuple[Manifest, bool]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What an owner's snapshots take.

    Attributes
    ----------
    snapshots, packs : int
        How many there are.
    used_bytes : int
        What they take of the disk.
    held_bytes : int
        What they would take if each were kept apart and uncompressed.
    quota_bytes : int or None
        What they may take.
    """

    snapshots: int
    packs: int
    used_bytes: int
    held_bytes: int
    quota_bytes: int | None


class Store:
    """The snapshots of one owner. May be used by several threads, and by several processes at once.

    Parameters
    ----------
    files : Files
        The owner's files.
    owner : str
        Whose they are.
    keys : sequence of bytes
        Keys of 32 bytes: the first one signs, any of them verifies.
    quota_bytes : int, optional
        What all snapshots may take.
    grace_seconds : float
        On stores that cannot be locked, what is younger is never collected.
    """

    def __init__(
        self,
        files: Files,
        *,
        owner: str,
        keys: Sequence[bytes],
        quota_bytes: int | None = None,
        grace_seconds: float = 3600.0,
    ) -> None:
        self.url = files.address
        self._opened: dict[str, tuple[bytes, tuple[Manifest, bool]]] = {}
        self._shelf = Shelf(
            files=files, owner=owner, keys=tuple(keys), quota_bytes=quota_bytes, grace_seconds=grace_seconds
        )

    @property
    def folder(self) -> str | None:
        """Where the files are on this machine; None where they are elsewhere."""
        return self._shelf.files.local_path("")

    def begin(self, options: WriteOptions | None = None) -> Writer:
        """Begin a snapshot; use it as a context manager.

        Raises
        ------
        StoreUnavailable
            If the store cannot be written to.
        """
        from jupyter_gpupool.state.store.writer import Writer
        from jupyter_gpupool.state.store.writing import WriteOptions

        with ExitStack() as stack:
            held = stack.enter_context(self._shelf.files.lock(shared=True, wait_seconds=BEGIN_SECONDS))
            if held is Held.BUSY:
                raise StoreUnavailable(
                    f"The store of snapshots at {self.url} is being collected for more than "
                    f"{BEGIN_SECONDS:.0f} s.",
                    hint="Save again when that is done.",
                )
            self._shelf.refresh()
            return Writer(self._shelf, options or WriteOptions(), stack.pop_all())

    def list(self) -> Manifests:
        """Return all snapshots that can be read, the newest first; `damaged` says which cannot."""
        return [manifest for manifest, _ in self._manifests()[0]]

    def damaged(self) -> dict[str, str]:
        """Return what is wrong with the snapshots whose manifests cannot be read, by id."""
        return {snapshot: error.message for snapshot, error in self._manifests()[1].items()}

    def find(self, which: str) -> Manifest:
        """Return a snapshot by its name (the newest that has it), its id, or the beginning of its id.

        Raises
        ------
        NoSuchSnapshot
            If there is none. The message lists those that are near.
        SnapshotDamaged
            If it is there and cannot be read.
        """
        return self._find(which)[0]

    def open(self, which: str, *, trust: bool = False) -> Reader:
        """Open a snapshot to read it.

        Parameters
        ----------
        which : str
            Its name or id, as for `find`.
        trust : bool
            Take it also if it was not written with one of the owner's keys.

        Raises
        ------
        NotTrusted
            If it was not, and ``trust`` is not given.
        """
        found = self._find(which)[0]
        # A list may come from the catalogue: what is restored is read from its own file.
        try:
            data = self._shelf.manifests.now(f"{found.id}{SNAPSHOT_ENDING}")
        except FileNotFoundError as error:
            raise NoSuchSnapshot(f"The snapshot {found.id} was forgotten just now.") from error
        manifest, trusted = open_manifest(data, found.id, self._shelf.keys)
        require_trust(manifest, trusted, trust)
        self._shelf.refresh()
        return Reader(self._shelf, manifest, trusted)

    def inspect(self, which: str) -> Reader:
        """Open a snapshot to look at it, whoever wrote it: nothing of it is executed."""
        return self.open(which, trust=True)

    def forget(self, which: str) -> Manifests:
        """Forget a snapshot by its id, or all that have a name; `gc` gives their bytes back.

        Returns
        -------
        list of Manifest
            Those that are gone; empty for a damaged one.
        """
        readable, damaged = self._manifests()
        if which in damaged:
            self._shelf.files.remove(snapshot_path(which))
            return []
        first = self._find(which)[0]
        gone = [first]
        if first.name and _same_name(which, first):
            gone = [manifest for manifest, _ in readable if manifest.name == first.name]
        self._forget(gone)
        return gone

    def retain(self, rule: Retention, *, now_seconds: float | None = None) -> Manifests:
        """Forget what a rule lets go, and return it; `gc` gives the bytes back."""
        from jupyter_gpupool.state.store.retention import outlived, too_large
        from jupyter_gpupool.state.store.verifying import chunks_of

        manifests = self.list()
        gone = outlived(manifests, rule, time.time() if now_seconds is None else now_seconds)
        if rule.bytes is not None:
            left = [manifest for manifest in manifests if manifest not in gone]
            self._shelf.refresh()
            gone += too_large(left, rule.bytes, lambda manifest: chunks_of(self._shelf, manifest))
        self._forget(gone)
        return gone

    def gc(self, *, wait_seconds: float = COLLECT_SECONDS) -> Collected:
        """Give back what no snapshot needs any more, safely beside others that write."""
        from jupyter_gpupool.state.store.collecting import collect

        return collect(self._shelf, wait_seconds=wait_seconds)

    def usage(self) -> Usage:
        """Return what the snapshots take."""
        manifests = self.list()
        packs = self._shelf.files.listing(PACKS)
        heads = self._shelf.files.listing(SNAPSHOTS)
        return Usage(
            snapshots=len(manifests),
            packs=sum(entry.name.endswith(PACK_ENDING) for entry in packs),
            used_bytes=sum(entry.used_bytes for entry in (*packs, *heads)),
            held_bytes=sum(manifest.total_bytes for manifest in manifests),
            quota_bytes=self._shelf.quota_bytes,
        )

    def verify(
        self, which: str = "", *, mend: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Damages:
        """Read everything, or one snapshot, and compare it with its hashes.

        Parameters
        ----------
        which : str
            A name or id; empty for all snapshots.
        mend : bool
            Forget damaged chunks, so that the next save that has them writes them anew, which makes the
            snapshots that share them whole again.
        progress : callable, optional
            Called with the bytes that were read, and those that there are.

        Returns
        -------
        list of Damage
            What is wrong, by snapshot; empty when everything is as it was written.
        """
        from jupyter_gpupool.state.store.verifying import Damage, verify

        readable, damaged = self._manifests(fresh=True)
        chosen = [self.find(which)] if which else [manifest for manifest, _ in readable]
        found = [
            Damage(snapshot=id_, name="", reason=why.message) for id_, why in damaged.items() if not which
        ]
        return found + verify(self._shelf, chosen, mend=mend, progress=progress)

    def close(self) -> None:
        """Give back what the store holds in memory: all of it for `memory_store`."""
        close = getattr(self._shelf.files, "close", None)
        if close is not None:
            close()

    def _forget(self, manifests: Sequence[Manifest]) -> None:
        for manifest in manifests:
            self._shelf.files.remove(snapshot_path(manifest.id))
            self._opened.pop(manifest.id, None)

    def _manifests(self, *, fresh: bool = False) -> tuple[_Read, dict[str, StateError]]:
        """Return those that can be read, the newest first, and what is wrong with the others by id."""
        readable: _Read = []
        damaged: dict[str, StateError] = {}
        for name, data in self._shelf.manifests.read(fresh=fresh).items():
            snapshot = name.removesuffix(SNAPSHOT_ENDING)
            known = self._opened.get(snapshot)
            if known is not None and known[0] == data:
                readable.append(known[1])
                continue
            try:
                opened = open_manifest(data, snapshot, self._shelf.keys)
            except StateError as error:
                damaged[snapshot] = error
                continue
            self._opened[snapshot] = data, opened
            readable.append(opened)
        readable.sort(key=lambda each: each[0].id, reverse=True)
        return readable, damaged

    def _find(self, which: str) -> tuple[Manifest, bool]:
        readable, damaged = self._manifests()
        if which in damaged:
            raise damaged[which]
        for each in readable:
            if each[0].id == which or _same_name(which, each[0]):
                return each
        starting = [each for each in readable if len(which) >= 8 and each[0].id.startswith(which)]
        if len(starting) == 1:
            return starting[0]
        raise no_such(which, [manifest.name or manifest.id for manifest, _ in readable])


def _same_name(which: str, manifest: Manifest) -> bool:
    return bool(manifest.name) and not is_id(which) and tidied(which) == manifest.name
