"""Memory of a snapshot, made again when it is first asked for.

Rules of this module: a root is one stretch of memory again, whoever asks for it first; whoever owned memory
before owns it again where that can be done; bytes are read straight into where they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jupyter_gpupool.state.memory import looks
from jupyter_gpupool.state.memory.pointers import bytes_at, cut
from jupyter_gpupool.state.model import CHUNK_BYTES, Details, Root, RootKind

#: Reads the chunks with these ids one after another into memory that is just long enough.
Read = Callable[[list[bytes], memoryview], None]


class Mapper(Protocol):
    """Gives memory that the chunks of a snapshot are mapped into."""

    def map(self, root: Root) -> memoryview | None:
        """Map a root, private to this process and writable; None where it has to be read."""


class Regions:
    """Memory that arrays and tensors of a snapshot look at.

    Parameters
    ----------
    details : Details
        The inside of the snapshot.
    read : callable
        Reads chunks into memory.
    place : callable, optional
        For a device where a root was, the one where it is to be; by default the same. Where that is not
        there, it is the CPU.
    mapper : Mapper, optional
        For a lazy restore: maps roots instead of reading them.
    """

    def __init__(
        self,
        details: Details,
        read: Read,
        *,
        place: Callable[[str], str] | None = None,
        mapper: Mapper | None = None,
    ) -> None:
        self._roots = details.roots
        self._offsets = details.offsets
        self._read = read
        self._place = place
        self._places = {"cpu": "cpu"}
        self._mapper = mapper
        self._arrays: dict[int, Any] = {}
        self._storages: dict[int, Any] = {}
        #: Where storages were that are on another device now, by their id.
        self.moved: dict[int, str] = {}
        self._cut: dict[tuple[int, int], Any] = {}

    def adopt(self, number: int, address: int, nbytes: int, owner: Any) -> bool:
        """Let an object that has just been made own a region, and read the bytes into it.

        Parameters
        ----------
        number : int
            Of the region.
        address, nbytes : int
            The object's memory.
        owner : object
            Something that numpy can look at as single bytes (an array, or what has the buffer protocol), to
            give to others that look at the same memory.

        Returns
        -------
        bool
            False where somebody else has the memory already, or more of it belongs together: the object must
            look at `array` instead.
        """
        index, offset = self._offsets[number]
        root = self._roots[index]
        if offset or root.nbytes != nbytes or self._taken(index) or root.kind is not RootKind.NUMPY:
            return False
        if self._mapper is not None and self._mapped(index) is not None:
            return False
        self._fill(root, address)
        self._arrays[index] = owner
        return True

    def adopt_over(self, number: int, address: int, nbytes: int, owner: Any) -> bool:
        """Like `adopt`, but write only where the memory has other bytes: pages of a file stay those of it."""
        index, offset = self._offsets[number]
        root = self._roots[index]
        if offset or root.nbytes != nbytes or self._taken(index):
            return False
        held = memoryview(bytearray(min(CHUNK_BYTES, nbytes)))
        for count, piece in enumerate(cut(bytes_at(address, nbytes), CHUNK_BYTES)):
            read = held[: len(piece)]
            self._read([root.chunks[count]], read)
            if piece != read:
                piece[:] = read
        self._arrays[index] = owner
        return True

    def array(self, number: int, nbytes: int) -> Any:
        """Return a region as a writable numpy array of single bytes."""
        index, offset = self._offsets[number]
        return self._bytes(index)[offset : offset + nbytes]

    def storage(self, number: int, nbytes: int) -> Any:
        """Return a region as a storage of torch: the same one each time."""
        index, offset = self._offsets[number]
        root = self._roots[index]
        if root.kind is RootKind.TORCH and not offset and nbytes == root.nbytes:
            return self._storage(index)
        try:
            return self._cut[number, nbytes]
        except KeyError:
            found = self._cut[number, nbytes] = self._looking(self.array(number, nbytes))
            return found

    def wished(self, device: str) -> str:
        """Return where somebody wants what was on this device, whether that is there or not."""
        return device if self._place is None else self._place(device)

    def place(self, device: str) -> str:
        """Return on which device something is put that was on this one."""
        if device not in self._places:
            from jupyter_gpupool.state.memory.devices import is_there

            wanted = self.wished(device)
            self._places[device] = wanted if is_there(wanted) else "cpu"
        return self._places[device]

    def _taken(self, index: int) -> bool:
        return index in self._arrays or index in self._storages

    def _bytes(self, index: int) -> Any:
        """Return a root as a numpy array of single bytes."""
        import numpy as np

        if index not in self._arrays:
            self._arrays[index] = self._made(index)
        whole = self._arrays[index]
        if not isinstance(whole, np.ndarray):
            whole = self._arrays[index] = np.frombuffer(whole, np.uint8)
        return whole

    def _made(self, index: int) -> Any:
        import numpy as np

        root = self._roots[index]
        if root.kind is RootKind.TORCH:
            import torch

            return torch.empty(0, dtype=torch.uint8).set_(self._storage(index)).numpy()
        mapped = self._mapped(index)
        if mapped is not None:
            return mapped
        made = np.empty(root.nbytes, np.uint8)
        self._fill(root, looks.address(made))
        return made

    def _mapped(self, index: int) -> Any:
        """Return a root mapped into memory, where that is asked for and can be done."""
        import numpy as np

        root = self._roots[index]
        if self._mapper is None or index in self._arrays or not root.nbytes:
            return self._arrays.get(index) if self._mapper is not None else None
        found = self._mapper.map(root)
        if found is None:
            return None
        self._arrays[index] = np.frombuffer(found, np.uint8)
        return self._arrays[index]

    def _storage(self, index: int) -> Any:
        if index not in self._storages:
            made = self._storages[index] = self._stored(self._roots[index])
            was = self._roots[index].device
            if self.place(was) != was:
                self.moved[id(made)] = was
        return self._storages[index]

    def _stored(self, root: Root) -> Any:
        import torch

        place = self.place(root.device)
        if place != "cpu":
            from jupyter_gpupool.state.memory.devices import upload

            return upload(root, place, self._read)
        mapped = None if self._mapper is None or not root.nbytes else self._mapper.map(root)
        if mapped is not None:
            return torch.frombuffer(mapped, dtype=torch.uint8).untyped_storage()
        made = torch.UntypedStorage(root.nbytes)
        self._fill(root, made.data_ptr())
        return made

    def _fill(self, root: Root, address: int) -> None:
        """Read a root into memory that nobody has touched yet."""
        self._read(root.chunks, bytes_at(address, root.nbytes))

    @staticmethod
    def _looking(array: Any) -> Any:
        """Return a storage that looks at an array's memory."""
        import torch

        if not len(array):
            return torch.UntypedStorage(0)
        return torch.from_numpy(array).untyped_storage()
