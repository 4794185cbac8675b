"""Where every chunk of an owner lies.

Rule of this module: a chunk counts only where the pack that holds it is there, and as long as its index says.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.state.errors import StateError
from jupyter_gpupool.state.store.catalogue import Catalogue
from jupyter_gpupool.state.store.files import Files, Listed
from jupyter_gpupool.state.store.formats import Entry, PackIndex, open_index

PACKS = "packs"
PACK_ENDING = ".pack"
INDEX_ENDING = ".index"


class Location(NamedTuple):
    """Where one chunk lies: in which pack, and there as its `Entry` says."""

    pack: str
    offset: int
    stored: int
    nbytes: int
    codec: int


def pack_path(pack: str) -> str:
    """Return the path of a pack."""
    return f"{PACKS}/{pack}{PACK_ENDING}"


def index_path(pack: str, generation: int) -> str:
    """Return the path of the index of a pack; its generation grows when chunks are taken out of it."""
    return f"{PACKS}/{pack}-{generation}{INDEX_ENDING}"


class Index:
    """The chunks of one owner, by id.

    Parameters
    ----------
    files : Files
        The owner's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._catalogue = Catalogue(files, PACKS, INDEX_ENDING)
        self._places: dict[bytes, Location] = {}
        self._loaded: frozenset[tuple[str, int]] = frozenset()
        self.packs: dict[str, PackIndex] = {}
        self.generations: dict[str, int] = {}
        self.listing: list[Listed] = []
        self.damaged: dict[str, str] = {}
        """What is wrong, by the name of a pack that cannot be used, or not whole."""

    def refresh(self) -> None:
        """Look at what packs there are now."""
        self.listing = self._files.listing(PACKS)
        seen = frozenset((entry.name, entry.nbytes) for entry in self.listing)
        if seen == self._loaded and not self.damaged:
            return
        self._rebuild()
        self._loaded = seen

    def get(self, chunk: bytes) -> Location | None:
        """Return where a chunk lies; None where there is none."""
        return self._places.get(chunk)

    def __contains__(self, chunk: bytes) -> bool:
        return chunk in self._places

    def add(self, pack: str, index: PackIndex) -> None:
        """Take in a pack that was just written."""
        self.packs[pack], self.generations[pack] = index, 0
        _place(self._places, pack, index.entries)

    def used_bytes(self) -> int:
        """Return what all packs take of the disk, as of the last look."""
        return sum(entry.used_bytes for entry in self.listing)

    def _rebuild(self) -> None:
        lengths = {
            entry.name.removesuffix(PACK_ENDING): entry.nbytes
            for entry in self.listing
            if entry.name.endswith(PACK_ENDING)
        }
        newest: dict[str, tuple[int, str]] = {}
        bodies = self._catalogue.read(self.listing)
        for name in bodies:
            pack, _, generation = name.removesuffix(INDEX_ENDING).rpartition("-")
            newest[pack] = max(newest.get(pack, (-1, "")), (int(generation), name))
        places: dict[bytes, Location] = {}
        packs: dict[str, PackIndex] = {}
        damaged: dict[str, str] = {}
        for pack, (_, name) in sorted(newest.items(), reverse=True):  # of equals the oldest counts
            try:
                index = open_index(bodies[name], f"The index of the pack {pack}")
            except StateError as error:
                damaged[pack] = error.message
                continue
            packs[pack] = index
            length = lengths.get(pack, 0)
            if length < index.pack_bytes:
                damaged[pack] = f"The pack {pack} has {length} bytes of {index.pack_bytes}."
            _place(places, pack, [entry for entry in index.entries if entry.offset + entry.stored <= length])
        self.generations = {pack: generation for pack, (generation, _) in newest.items()}
        self._places, self.packs, self.damaged = places, packs, damaged


def _place(places: dict[bytes, Location], pack: str, entries: list[Entry]) -> None:
    for entry in entries:
        places[entry.id] = Location(pack, entry.offset, entry.stored, entry.nbytes, entry.codec)
