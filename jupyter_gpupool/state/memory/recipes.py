"""The recipes of this package: which type is taken apart by which function.

Rule of this module: types are named, never imported, and what takes them apart is imported with them.
"""

from __future__ import annotations

import mmap
from array import array as arrays_of_array
from typing import TYPE_CHECKING

from jupyter_gpupool.state.memory import (
    arrays,
    arrow,
    buffers,
    frames,
    limits,
    mapped,
    modules,
    optimizers,
    storages,
    tensors,
)
from jupyter_gpupool.state.recipes.registry import Recipe, recipe_for

if TYPE_CHECKING:
    from jupyter_gpupool.state.recipes.registry import Reducer


def _recipe(module: str, qualname: str, reduce: Reducer) -> Recipe:
    """Return a recipe for a type and those derived from it, however they are pickled otherwise."""
    return Recipe(module=module, qualname=qualname, reduce=reduce, subclasses=True, regardless=True)


_LIMITS = (("numpy", "finfo"), ("numpy", "iinfo"), ("torch", "finfo"), ("torch", "iinfo"))
#: All recipes for what looks at memory; a later one for the same type counts.
RECIPES: list[Recipe] = [
    recipe_for(memoryview, buffers.reduce_memoryview),
    recipe_for(arrays_of_array, buffers.reduce_array),
    recipe_for(buffers.ARRAY_TYPE, buffers.reduce_array_type),
    recipe_for(buffers.POINTER_TYPE, buffers.reduce_pointer_type),
    *(recipe_for(kind, buffers.reduce_laid_out_type) for kind in buffers.LAID_OUT_TYPES),
    *(
        _recipe("_ctypes", name, buffers.reduce_ctypes)
        for name in ("Array", "Structure", "Union", "_SimpleCData")
    ),
    recipe_for(mmap.mmap, mapped.reduce_mmap),
    _recipe("numpy", "ndarray", arrays.reduce_array),
    _recipe("numpy", "void", arrays.reduce_row),
    _recipe("pyarrow.lib", "Buffer", arrow.reduce_buffer),
    _recipe("pandas._libs.internals", "Block", frames.reduce_block),
    _recipe("pandas.core.internals.managers", "BaseBlockManager", frames.reduce_manager),
    _recipe("pandas._libs.internals", "BlockValuesRefs", frames.reduce_refs),
    _recipe("pandas.core.indexes.base", "Index", frames.reduce_index),
    _recipe("pandas.core.arrays.arrow.array", "ArrowExtensionArray", frames.reduce_arrow_backed),
    _recipe("torch", "UntypedStorage", storages.reduce_storage),
    _recipe("torch.storage", "TypedStorage", storages.reduce_typed),
    _recipe("torch", "Tensor", tensors.reduce_tensor),
    _recipe("torch.nn.modules.module", "Module", modules.reduce_module),
    _recipe("torch.jit", "ScriptModule", modules.reduce_script),
    _recipe("torch.jit", "ScriptFunction", modules.reduce_script),
    *(_recipe(*name, limits.reduce_limits) for name in _LIMITS),
    _recipe("numpy", "ufunc", limits.reduce_function),
    _recipe("numpy", "flatiter", limits.reduce_walk),
    _recipe("numpy.lib._npyio_impl", "BagObj", limits.reduce_bag),
    _recipe("torch.optim.optimizer", "Optimizer", optimizers.reduce_optimizer),
    _recipe("torch", "Generator", tensors.reduce_generator),
]
