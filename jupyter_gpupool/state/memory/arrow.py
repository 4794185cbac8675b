"""Buffers of Arrow, below its arrays and tables.

Rule of this module: a buffer is memory like any other; it is never copied to be saved, and what looks at the
same memory does so again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory.pointers import bytes_at
from jupyter_gpupool.state.memory.roots import INLINE_BYTES

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced


def reduce_buffer(buffer: Any, capturing: Capturing) -> Reduced | None:
    """Take a buffer apart; None where it is not in memory of the host."""
    if not buffer.is_cpu:
        return None
    address, nbytes = buffer.address, buffer.size
    if nbytes <= INLINE_BYTES:
        return make_inline, (bytes(bytes_at(address, nbytes)),)
    owner = capturing.roots.owner(address, nbytes)
    if owner is not None:
        return make_looking, (*owner, nbytes)
    return make_buffer, (capturing.roots.region(address, nbytes, buffer), nbytes)


def make_inline(content: bytes) -> Any:
    """Make a buffer from its bytes."""
    import pyarrow

    return pyarrow.py_buffer(content)


def make_buffer(number: int, nbytes: int) -> Any:
    """Make a buffer from a region's number."""
    import pyarrow

    return pyarrow.py_buffer(current().regions.array(number, nbytes))


def make_looking(owner: Any, offset: int, nbytes: int) -> Any:
    """Make a buffer that looks at memory of another object."""
    import pyarrow

    from jupyter_gpupool.state.memory.storages import bytes_of

    return pyarrow.py_buffer(bytes_of(owner)[offset : offset + nbytes])
