"""Storages of torch: the memory below tensors.

Rules of this module: a storage is one object of the stream, whatever tensors look at it; memory that torch
only borrows is looked at again where its owner is; nothing here makes a storage unable to be resized that
was able to before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory.mapped import mapping_at
from jupyter_gpupool.state.memory.owners import known_owner
from jupyter_gpupool.state.memory.pointers import bytes_at
from jupyter_gpupool.state.memory.roots import INLINE_BYTES
from jupyter_gpupool.state.model import RootKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.memory.roots import RootTable
    from jupyter_gpupool.state.recipes.registry import Reduced


def own_storage(tensor: Any, roots: RootTable) -> None:
    """Tell a table of a tensor's storage, where that owns memory of the host."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return
    if storage.device.type == "cpu" and owns(storage):
        roots.own(storage.data_ptr(), storage.nbytes(), storage)


def owns(storage: Any) -> bool:
    """Tell whether a storage's memory is torch's own, as far as can be told."""
    return bool(storage.resizable()) or bool(storage.is_shared())


def reduce_storage(storage: Any, capturing: Capturing) -> Reduced:
    """Take a storage apart: its bytes, or whose memory it looks at."""
    device, nbytes = str(storage.device), storage.nbytes()
    if storage.device.type == "meta":
        return make_empty, (device, nbytes)
    if storage.device.type != "cpu":
        from jupyter_gpupool.state.memory.devices import fetcher

        number = capturing.roots.region(
            storage.data_ptr(), nbytes, storage, kind=RootKind.TORCH, device=device, fetch=fetcher(storage)
        )
        return make_storage, (number, nbytes)
    at = storage.data_ptr() if nbytes else 0
    if getattr(storage, "filename", None) is not None:
        found_file = mapping_at(at)
        if found_file is not None and found_file.shared:
            return make_filed, (storage.filename, nbytes)
    if nbytes and storage.is_shared():
        return make_shared, (capturing.roots.region(at, nbytes, storage, kind=RootKind.TORCH), nbytes)
    if nbytes and not owns(storage):
        found = known_owner(capturing, at, nbytes)
        if found is not None and found[0] is not storage:
            return make_looking, (found[0], found[1], nbytes)
    capturing.roots.own(at, nbytes, storage)
    if nbytes <= INLINE_BYTES and not capturing.roots.known(at):
        return make_inline, (bytes(bytes_at(at, nbytes)),)
    return make_storage, (capturing.roots.region(at, nbytes, storage, kind=RootKind.TORCH), nbytes)


def reduce_typed(storage: Any, capturing: Capturing) -> Reduced:
    """Take the older kind of storage apart, which knows the type of its elements."""
    return make_typed, (storage._untyped_storage, storage.dtype)


def make_storage(number: int, nbytes: int) -> Any:
    """Make a storage from a region's number."""
    return current().regions.storage(number, nbytes)


def make_shared(number: int, nbytes: int) -> Any:
    """Make a storage that other processes can be given."""
    made = current().regions.storage(number, nbytes)
    made.share_memory_()
    return made


def make_filed(path: str, nbytes: int) -> Any:
    """Make a storage that is a file."""
    import torch

    if not Path(path).is_file() or Path(path).stat().st_size < nbytes:
        reason = f"the file {path} that it is is not there, or is shorter than it was"
        return current().lost("torch.UntypedStorage", reason, "Put the file back, and restore again.")
    return torch.UntypedStorage.from_file(path, True, nbytes)


def make_inline(content: bytes) -> Any:
    """Make a storage from its bytes."""
    import torch

    made = torch.UntypedStorage(len(content))
    if content:
        bytes_at(made.data_ptr(), len(content))[:] = content
    return made


def make_empty(device: str, nbytes: int) -> Any:
    """Make a storage of a device that keeps no bytes."""
    import torch

    return torch.UntypedStorage(nbytes, device=device)


def make_looking(owner: Any, offset: int, nbytes: int) -> Any:
    """Make a storage that looks at memory of another object."""
    import torch

    if isinstance(owner, torch.UntypedStorage) and not offset and owner.nbytes() == nbytes:
        return owner
    part = bytes_of(owner)[offset : offset + nbytes]
    if part.flags.writeable:
        return torch.from_numpy(part).untyped_storage()
    return _looking_read_only(part)


def _looking_read_only(part: Any) -> Any:
    """Look at memory that Python does not let anybody write, as torch did: it knows of no such thing."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(part, dtype=torch.uint8).untyped_storage()


def make_typed(storage: Any, dtype: Any) -> Any:
    """Make the older kind of storage around a storage."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def bytes_of(owner: Any) -> Any:
    """Return the memory of whatever owns some, as a numpy array of single bytes."""
    import numpy as np

    from jupyter_gpupool.state.memory.looks import flat

    if isinstance(owner, np.ndarray):
        return flat(owner)
    if hasattr(owner, "data_ptr"):
        return as_array(owner)
    return np.frombuffer(owner, np.uint8)


def as_array(value: Any) -> Any:
    """Return a storage's bytes, or a tensor, as the numpy array that looks at it."""
    torch: Any = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return torch.empty(0, dtype=torch.uint8).set_(value).numpy()
