"""Comparing everything that is kept with its hashes.

Rule of this module: each chunk is read once, however many snapshots hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from jupyter_gpupool.state.errors import StateError
from jupyter_gpupool.state.model import Manifest
from jupyter_gpupool.state.store.files import Held
from jupyter_gpupool.state.store.formats import PackIndex, held_chunks, seal_index
from jupyter_gpupool.state.store.index import index_path
from jupyter_gpupool.state.store.reader import Reader
from jupyter_gpupool.state.store.shelf import Shelf


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one snapshot.

    Attributes
    ----------
    snapshot, name : str
        Which.
    reason : str
        What, as a sentence.
    chunks : list of bytes
        The ids of the chunks that are not what was saved.
    """

    snapshot: str
    name: str
    reason: str
    chunks: list[bytes] = []


def chunks_of(shelf: Shelf, manifest: Manifest) -> Iterator[tuple[bytes, int]]:
    """Yield the chunks of a snapshot with the bytes that each takes in its pack."""
    with Reader(shelf, manifest, trusted=False) as reader:
        held = held_chunks(reader.read(manifest.details))
    for chunk in held.union(manifest.details):
        place = shelf.index.get(chunk)
        yield chunk, place.stored if place else 0


def verify(
    shelf: Shelf,
    manifests: Sequence[Manifest],
    *,
    mend: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Damage]:
    """Read what snapshots hold, and say which of them are damaged."""
    shelf.refresh(fresh=True)
    problems: dict[bytes, str] = {}
    held: list[tuple[Manifest, set[bytes]]] = []
    for manifest in manifests:
        chunks = set(manifest.details)
        _check(shelf, manifest, chunks, problems)
        if not chunks & problems.keys():
            with Reader(shelf, manifest, trusted=False) as reader:
                chunks |= held_chunks(reader.read(manifest.details))
        held.append((manifest, chunks))
    total = {chunk: place.nbytes for _, ids in held for chunk in ids if (place := shelf.index.get(chunk))}
    seen: set[bytes] = set()
    done = 0
    for manifest, chunks in held:
        for chunk in chunks - seen:
            _check(shelf, manifest, {chunk}, problems)
            done += total.get(chunk, 0)
            if progress is not None:
                progress(done, sum(total.values()))
        seen |= chunks
    if mend and problems:
        _set_aside(shelf, set(problems))
    return [_damage(manifest, chunks, problems) for manifest, chunks in held if chunks & problems.keys()]


def _check(shelf: Shelf, manifest: Manifest, chunks: set[bytes], problems: dict[bytes, str]) -> None:
    with Reader(shelf, manifest, trusted=False) as reader:
        for chunk in chunks - problems.keys():
            try:
                reader.check([chunk])
            except StateError as error:
                problems[chunk] = error.message


def _damage(manifest: Manifest, chunks: set[bytes], problems: dict[bytes, str]) -> Damage:
    bad = sorted(chunks & problems.keys())
    reason = problems[bad[0]]
    if len(bad) > 1:
        reason += f" {len(bad) - 1} more of its chunks are damaged."
    return Damage(snapshot=manifest.id, name=manifest.name, reason=reason, chunks=bad)


def _set_aside(shelf: Shelf, bad: set[bytes]) -> None:
    """Take damaged chunks out of the indexes of their packs."""
    with shelf.files.lock(shared=False, wait_seconds=10.0) as held:
        if held is Held.BUSY:
            return
        for pack, content in list(shelf.index.packs.items()):
            kept = [entry for entry in content.entries if entry.id not in bad]
            if len(kept) < len(content.entries):
                generation = shelf.index.generations[pack]
                sealed = seal_index(PackIndex(content.pack_bytes, kept))
                shelf.files.put(index_path(pack, generation + 1), sealed)
                shelf.files.remove(index_path(pack, generation))
    shelf.refresh()
