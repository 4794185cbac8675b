"""Where numbers of regions stand in the stream of objects.

Rule of this module: a region's number is a direct argument of a function named here, and of none other; what
stands there and is none (bytes, -1) stands for itself.
"""

from __future__ import annotations

_HERE = "jupyter_gpupool.state.memory"
#: For each function of the stream, at which positions of its arguments the numbers are.
NUMBERED: dict[str, tuple[int, ...]] = {
    f"{_HERE}.arrays.make_owner": (4,),
    f"{_HERE}.arrays.make_region_view": (1,),
    f"{_HERE}.arrow.make_buffer": (0,),
    f"{_HERE}.buffers.make_array": (2,),
    f"{_HERE}.buffers.make_ctypes": (1,),
    f"{_HERE}.mapped.make_memory": (0,),
    f"{_HERE}.mapped.make_mapped": (5,),
    f"{_HERE}.storages.make_shared": (0,),
    f"{_HERE}.storages.make_storage": (0,),
}
