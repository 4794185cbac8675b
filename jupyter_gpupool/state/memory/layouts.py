"""What tensors of each layout consist of.

Rule of this module: parts that are memory are storages or tensors of their own in the stream; a part that
torch gives only as a copy is said to be one by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.memory.roots import RootTable

Taken = tuple[Callable[..., Any], tuple[Any, ...]]


def take(tensor: Any, roots: RootTable) -> Taken:
    """Take the values of a tensor apart.

    Parameters
    ----------
    tensor : torch.Tensor
        One without a graph.
    roots : RootTable
        Keeps alive what is taken out of it.

    Returns
    -------
    callable, tuple
        What makes it again, and its arguments.
    """
    torch: Any = sys.modules["torch"]
    if _is_wrapper(tensor):
        return _wrapper(tensor)
    if tensor.layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values(), tuple(tensor.size()), tensor.is_coalesced())
        return _kept(roots, make_coo, parts)
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        outer, inner = tensor.crow_indices(), tensor.col_indices()
        return _kept(
            roots, make_compressed, (tensor.layout, outer, inner, tensor.values(), tuple(tensor.size()))
        )
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        outer, inner = tensor.ccol_indices(), tensor.row_indices()
        return _kept(
            roots, make_compressed, (tensor.layout, outer, inner, tensor.values(), tuple(tensor.size()))
        )
    if tensor.is_nested:
        sizes, strides = tensor._nested_tensor_size(), tensor._nested_tensor_strides()
        return _kept(
            roots, make_nested, (tensor.values(), sizes, strides, tensor._nested_tensor_storage_offsets())
        )
    if tensor.is_mkldnn:
        return _kept(roots, make_mkldnn, (tensor.to_dense(),))
    if not torch._C._has_storage(tensor):
        return _kept(roots, make_on_device, (tensor.cpu(), str(tensor.device)))
    return _strided(tensor, roots)


def _kept(roots: RootTable, make: Callable[..., Any], parts: tuple[Any, ...]) -> Taken:
    roots.keep(parts)
    return make, parts


def _strided(tensor: Any, roots: RootTable) -> Taken:
    torch: Any = sys.modules["torch"]
    storage = roots.storage(tensor)
    where = (storage, tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    if tensor.is_quantized:
        return make_quantized, (*where, _scales(tensor))
    bits = torch._utils.get_tensor_metadata(tensor) or None
    if bits is None and not tensor.is_inference():
        return make_strided, where
    return make_strided, (*where, bits, tensor.is_inference())


def _scales(tensor: Any) -> tuple[Any, ...]:
    torch: Any = sys.modules["torch"]
    if tensor.qscheme() == torch.per_tensor_affine:
        return tensor.qscheme(), tensor.q_scale(), tensor.q_zero_point()
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return tensor.qscheme(), scales, zeros, tensor.q_per_channel_axis()


def _is_wrapper(tensor: Any) -> bool:
    """Tell whether a tensor is made of others that it says itself."""
    kind = type(tensor)
    return hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")


def _wrapper(tensor: Any) -> Taken:
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    return make_wrapper, (type(tensor), inner, context, tuple(tensor.size()), tensor.stride())


def make_strided(
    storage: Any,
    dtype: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    bits: dict[str, Any] | None = None,
    inference: bool = False,
) -> Any:
    """Make a tensor that looks at a storage."""
    import torch

    with torch.inference_mode(inference):
        made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
        if bits:
            torch._utils.set_tensor_metadata(made, bits)
        return made


def make_quantized(
    storage: Any,
    dtype: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    scales: tuple[Any, ...],
) -> Any:
    """Make a tensor of small integers that stand for other numbers."""
    import torch

    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    return torch._utils._rebuild_qtensor(typed, offset, size, stride, scales, False, None)


def make_coo(indices: Any, values: Any, size: tuple[int, ...], coalesced: bool) -> Any:
    """Make a sparse tensor of coordinates and values."""
    import torch

    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced, check_invariants=False)


def make_compressed(layout: Any, outer: Any, inner: Any, values: Any, size: tuple[int, ...]) -> Any:
    """Make a sparse tensor of compressed rows or columns."""
    import torch

    return torch._utils._rebuild_sparse_tensor(layout, (outer, inner, values, torch.Size(size)))


def make_nested(values: Any, sizes: Any, strides: Any, offsets: Any) -> Any:
    """Make a nested tensor."""
    import torch

    return torch._utils._rebuild_nested_tensor(values, sizes, strides, offsets)


def make_mkldnn(dense: Any) -> Any:
    """Make a tensor in the layout of the CPU's own library, from a copy in the usual one."""
    return dense.to_mkldnn()


def make_on_device(copy: Any, device: str) -> Any:
    """Make a tensor of a device without storages, from a copy on the host."""
    from jupyter_gpupool.state.graph.loading import current

    return copy.to(current().regions.place(device))


def make_wrapper(kind: Any, inner: Any, context: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    """Make an instance of a class that is made of other tensors."""
    import torch

    return kind.__tensor_unflatten__(inner, context, torch.Size(size), stride)
