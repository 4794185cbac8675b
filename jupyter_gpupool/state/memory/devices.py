"""Memory of devices other than the CPU: to the host and back, a piece at a time.

Rule of this module: the host never holds more of a device's memory at once than `CHUNK_BYTES`, whatever the
size of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_gpupool.state.memory.pointers import bytes_at
from jupyter_gpupool.state.model import CHUNK_BYTES, Root


def _bytes_of(storage: Any, start: int, nbytes: int) -> Any:
    import torch

    line = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return line.set_(storage, start, (nbytes,), (1,))


def fetcher(storage: Any) -> Callable[[int, int], memoryview]:
    """Return what copies bytes of a device's storage to the host.

    Parameters
    ----------
    storage : torch.UntypedStorage
        On any device that torch can copy from.

    Returns
    -------
    callable
        Takes the first byte and how many; what it returns is good until it is called again.
    """
    held: list[Any] = []

    def fetch(start: int, nbytes: int) -> memoryview:
        import torch

        if not held or held[0].nbytes() < nbytes:
            held[:] = [torch.UntypedStorage(max(nbytes, min(CHUNK_BYTES, storage.nbytes())))]
        host = _bytes_of(held[0], 0, nbytes)
        host.copy_(_bytes_of(storage, start, nbytes))
        return bytes_at(held[0].data_ptr(), nbytes)

    return fetch


def upload(root: Root, device: str, read: Callable[[list[bytes], memoryview], None]) -> Any:
    """Make a storage on a device and fill it from a snapshot.

    Parameters
    ----------
    root : Root
        What it consists of.
    device : str
        Where it is made.
    read : callable
        Reads chunks into memory of the host.

    Returns
    -------
    torch.UntypedStorage
        On that device.
    """
    import torch

    made = torch.UntypedStorage(root.nbytes, device=device)
    host = torch.UntypedStorage(min(CHUNK_BYTES, root.nbytes))
    for number, chunk in enumerate(root.chunks):
        start = number * CHUNK_BYTES
        nbytes = min(CHUNK_BYTES, root.nbytes - start)
        read([chunk], bytes_at(host.data_ptr(), nbytes))
        _bytes_of(made, start, nbytes).copy_(_bytes_of(host, 0, nbytes))
    return made


def is_there(device: str) -> bool:
    """Tell whether torch can use a device here."""
    import torch

    kind, _, index = device.partition(":")
    if kind in ("cpu", "meta"):
        return True
    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "is_available") or not module.is_available():
        return False
    return int(index or 0) < int(module.device_count())
