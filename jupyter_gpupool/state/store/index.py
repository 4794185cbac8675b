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
        self._loaded: dict[str, int] = {}
        self.packs: dict[str, PackIndex] = {}
        self.generations: dict[str, int] = {}
        self.listing: list[Listed] = []
        self.damaged: dict[str, str] = {}
        """What is wrong, by the name of a pack that cannot be used, or not whole."""

    def refresh(self, *, fresh: bool = False) -> None:
        """Look at what packs there are now; ``fresh`` reads all of it again from the files themselves."""
        self.listing = self._files.listing(PACKS)
        seen = {entry.name: entry.nbytes for entry in self.listing}
        gone = self._loaded.items() - seen.items()
        if fresh or gone or self.damaged:
            self._loaded = {}
            self._load(seen, {}, fresh=fresh)
        elif len(seen) > len(self._loaded):
            self._load(seen, self._places, fresh=False)
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

    def _load(self, seen: dict[str, int], places: dict[bytes, Location], *, fresh: bool) -> None:
        """Take in the indexes that are not loaded yet; with nothing loaded, all of them."""
        bodies = self._catalogue.read(self.listing, fresh=fresh)
        whole = not self._loaded
        packs = {} if whole else self.packs
        generations = {} if whole else self.generations
        damaged = {} if whole else self.damaged
        newest: dict[str, tuple[int, str]] = {}
        for name in bodies.keys() - self._loaded.keys():
            pack, _, number = name.removesuffix(INDEX_ENDING).rpartition("-")
            newest[pack] = max(newest.get(pack, (-1, "")), (int(number), name))
        for pack, (generation, name) in sorted(newest.items(), reverse=True):  # of equals the oldest counts
            generations[pack] = generation
            try:
                index = open_index(bodies[name], f"The index of the pack {pack}")
            except StateError as error:
                damaged[pack] = error.message
                continue
            packs[pack] = index
            length = seen.get(f"{pack}{PACK_ENDING}", 0)
            if length < index.pack_bytes:
                damaged[pack] = f"The pack {pack} has {length} bytes of {index.pack_bytes}."
            _place(places, pack, [entry for entry in index.entries if entry.offset + entry.stored <= length])
        self._places, self.packs, self.generations, self.damaged = places, packs, generations, damaged


def _place(places: dict[bytes, Location], pack: str, entries: list[Entry]) -> None:
    for entry in entries:
        places[entry.id] = Location(pack, entry.offset, entry.stored, entry.nbytes, entry.codec)
