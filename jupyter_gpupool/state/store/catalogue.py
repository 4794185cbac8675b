"""Many small files that never change, read as one.

Rule of this module: the catalogue is a copy that can be thrown away at any time; the files themselves count.
"""

from __future__ import annotations

import contextlib

import msgspec

from jupyter_gpupool.state.errors import StateError
from jupyter_gpupool.state.store.files import Files, Listed
from jupyter_gpupool.state.store.formats import HASH_BYTES, digest

#: The catalogue is written anew when this many files are not in it.
MISSING_FILES = 64

_decoder = msgspec.msgpack.Decoder(dict[str, tuple[int, bytes]])


class Catalogue:
    """The files of one folder with one ending.

    Parameters
    ----------
    files : Files
        The owner's files.
    folder : str
        The folder.
    ending : str
        The ending of their names.
    """

    def __init__(self, files: Files, folder: str, ending: str) -> None:
        self._files, self._folder, self._ending = files, folder, ending
        self._path = f"cache/{folder}"
        self._known: dict[str, tuple[int, bytes]] | None = None

    def read(self, listing: list[Listed] | None = None, *, fresh: bool = False) -> dict[str, bytes]:
        """Return what each file holds by its name; those that vanish meanwhile are left out.

        Parameters
        ----------
        listing : list of Listed, optional
            The files of the folder, where they were just listed.
        fresh : bool
            Read every file, and believe no copy.
        """
        if listing is None:
            listing = self._files.listing(self._folder)
        found = {entry.name: entry.nbytes for entry in listing if entry.name.endswith(self._ending)}
        known = {} if fresh else self._load() if self._known is None else self._known
        known = {name: kept for name, kept in known.items() if found.get(name) == kept[0]}
        missing = [name for name in found if name not in known]
        for name in missing:
            with contextlib.suppress(FileNotFoundError):
                known[name] = (found[name], self._files.read(f"{self._folder}/{name}"))
        self._known = known
        if len(missing) >= MISSING_FILES:
            self._save()
        return {name: kept[1] for name, kept in known.items()}

    def now(self, name: str) -> bytes:
        """Return what one file holds, from the file itself."""
        return self._files.read(f"{self._folder}/{name}")

    def _load(self) -> dict[str, tuple[int, bytes]]:
        try:
            data = self._files.read(self._path)
            if digest(data[HASH_BYTES:]) == data[:HASH_BYTES]:
                return _decoder.decode(data[HASH_BYTES:])
        except (FileNotFoundError, msgspec.DecodeError):
            pass
        return {}

    def _save(self) -> None:
        body = msgspec.msgpack.encode(self._known)
        with contextlib.suppress(StateError):  # a full or read-only store is still read
            self._files.put(self._path, digest(body) + body, lasting=False)
