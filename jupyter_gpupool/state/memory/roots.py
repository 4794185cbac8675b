"""The one table of memory that arrays and tensors look at.

Rules of this module: a stretch of memory is in the table once, whoever looks at it; what overlaps becomes one
root; whatever owns the memory is kept alive for as long as the table is, so that an address means one thing:
whoever has the addresses keeps the table until they are done with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from jupyter_gpupool.state.memory.pointers import bytes_at, cut
from jupyter_gpupool.state.model import CHUNK_BYTES, RootKind

#: Buffers up to this many bytes lie in the stream of objects: a root of their own would cost more.
INLINE_BYTES = 4096
#: Gives copies of a device's bytes in host memory: of the storage from a byte on, a number of them.
Fetch = Callable[[int, int], memoryview]


class _Region(NamedTuple):
    address: int
    nbytes: int
    kind: RootKind
    device: str
    fetch: Fetch | None


@dataclass(frozen=True, slots=True)
class Memory:
    """A stretch of memory that is saved as one root.

    Attributes
    ----------
    address, nbytes : int
        Where it is.
    kind : RootKind
        Who owns it when it is made again.
    device : str
        Where that address counts: "cpu", "cuda:0", ….
    fetch : callable or None
        Copies bytes of a device's memory to the host; None where the address is the host's.
    """

    address: int
    nbytes: int
    kind: RootKind
    device: str = "cpu"
    fetch: Fetch | None = None

    def chunks(self, nbytes: int = CHUNK_BYTES) -> Iterator[memoryview]:
        """Yield its bytes in order; a piece is good until the next one is asked for."""
        if self.fetch is None:
            yield from cut(bytes_at(self.address, self.nbytes), nbytes)
            return
        for start in range(0, self.nbytes, nbytes):
            yield self.fetch(start, min(nbytes, self.nbytes - start))


class RootTable:
    """Memory that is looked at in one capture."""

    def __init__(self) -> None:
        self._regions: list[_Region] = []
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._kept: list[Any] = []
        self._owners: dict[int, tuple[int, Any]] = {}
        self._starts: list[int] | None = None
        self._addresses: set[int] = set()
        self._searched = False
        #: Bytes of the regions taken in so far; what overlaps counts for each of them.
        self.nbytes = 0
        self._storages: dict[int, Any] = {}

    def region(
        self,
        address: int,
        nbytes: int,
        keep: Any,
        *,
        kind: RootKind = RootKind.NUMPY,
        device: str = "cpu",
        fetch: Fetch | None = None,
    ) -> int:
        """Take a stretch of memory in.

        Parameters
        ----------
        address, nbytes : int
            Where it is.
        keep : object
            What owns it: kept alive with the table.
        kind : RootKind, optional
            Who owns it when it is made again.
        device : str, optional
            Where the address counts.
        fetch : callable, optional
            Copies bytes of it to the host, where the host cannot read the address.

        Returns
        -------
        int
            Its number, to be written into the stream: `Details.offsets` says where it lies.
        """
        key = (device, address if nbytes else 0, nbytes)
        known = self._numbers.get(key)
        if known is not None:
            return known
        self.nbytes += nbytes
        self._kept.append(keep)
        self._addresses.add(address)
        self._regions.append(_Region(key[1], nbytes, kind, device, fetch))
        number = self._numbers[key] = len(self._regions) - 1
        return number

    def own(self, address: int, nbytes: int, owner: Any) -> None:
        """Remember an object that owns memory of the host, for others that look at it by address only."""
        if nbytes:
            self._owners[address] = (nbytes, owner)
            self._starts = None

    def owner(self, address: int, nbytes: int) -> tuple[Any, int] | None:
        """Return the known object whose memory holds a stretch, and where in it that begins."""
        if self._starts is None:
            self._starts = sorted(self._owners)
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        length, owner = self._owners[start]
        if address + nbytes > start + length:
            return None
        return owner, address - start

    def storage(self, tensor: Any) -> Any:
        """Return a tensor's storage: the same object for all that share it."""
        found = tensor.untyped_storage()
        return self._storages.setdefault(found._cdata, found)

    def known(self, address: int) -> bool:
        """Tell whether a region begins at an address."""
        return address in self._addresses

    def search_once(self) -> bool:
        """Tell, the first time only, that owners may be searched for."""
        first, self._searched = not self._searched, True
        return first

    def keep(self, value: Any) -> None:
        """Keep something alive until the table goes."""
        self._kept.append(value)

    def merge(self) -> tuple[list[Memory], list[tuple[int, int]]]:
        """Put together what overlaps.

        Returns
        -------
        list of Memory, list of (int, int)
            The roots; and for each region number its root, and the byte of it where the region begins.
        """
        roots: list[Memory] = []
        offsets: list[tuple[int, int]] = [(0, 0)] * len(self._regions)
        in_order = sorted(
            range(len(self._regions)),
            key=lambda n: (self._regions[n].device, self._regions[n].address, -self._regions[n].nbytes),
        )
        for number in in_order:
            one = self._regions[number]
            if not roots or not _overlap(roots[-1], one):
                roots.append(Memory(one.address, one.nbytes, one.kind, one.device, one.fetch))
            else:
                roots[-1] = _joined(roots[-1], one)
            offsets[number] = (len(roots) - 1, one.address - roots[-1].address)
        return roots, offsets


def _overlap(root: Memory, one: _Region) -> bool:
    return root.device == one.device and one.address < root.address + root.nbytes and one.nbytes > 0


def _joined(root: Memory, one: _Region) -> Memory:
    """Return a root and a region that begins in it as one; a device's storage never grows this way."""
    torch = RootKind.TORCH in (root.kind, one.kind)
    end = max(root.address + root.nbytes, one.address + one.nbytes)
    return Memory(
        root.address,
        end - root.address,
        RootKind.TORCH if torch else RootKind.NUMPY,
        root.device,
        root.fetch,
    )
