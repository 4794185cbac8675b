"""Data frames of pandas: blocks of values, and who else looks at them.

Rule of this module: pandas copies values before they are written when another block or index that it knows of
looks at them; so whoever shared values knows of each other again, and nobody who did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

#: Kinds of index that are no values, but a rule or several other indexes: their own way is right.
_NOT_VALUES = frozenset({"RangeIndex", "MultiIndex"})


def reduce_block(block: Any, capturing: Capturing) -> Reduced:
    """Take a block of values apart, with those that look at the same values."""
    return make_block, (type(block), block.values, block.mgr_locs.indexer, block.ndim, block.refs)


def make_block(kind: Any, values: Any, places: Any, ndim: int, refs: Any) -> Any:
    """Make a block, which is known to the others that look at its values."""
    from pandas._libs.internals import BlockPlacement

    return kind(values, BlockPlacement(places), ndim, refs)


def reduce_manager(manager: Any, capturing: Capturing) -> Reduced:
    """Take a frame's or series' blocks and axes apart: the blocks themselves, not their values."""
    single = len(manager.axes) == 1
    blocks, axes = (manager.blocks[0], manager.axes[0]) if single else (manager.blocks, list(manager.axes))
    return make_manager, (type(manager), blocks, axes)


def make_manager(kind: Any, blocks: Any, axes: Any) -> Any:
    """Make what holds a frame's or series' blocks and axes."""
    return kind(blocks, axes, verify_integrity=False)


def reduce_refs(refs: Any, capturing: Capturing) -> Reduced:
    """Take apart what knows all that look at some values: they tell it again themselves."""
    return make_refs, ()


def make_refs() -> Any:
    """Make what is to know all that look at some values."""
    from pandas._libs.internals import BlockValuesRefs

    return BlockValuesRefs()


def reduce_index(index: Any, capturing: Capturing) -> Reduced | None:
    """Take an index apart: its own values, not a copy; None for those that are no values."""
    kind = type(index)
    if kind.__name__ in _NOT_VALUES or not kind.__module__.startswith("pandas."):
        return None
    frequency = index.__dict__.get("_freq")
    args = (kind, index._data, index._name, getattr(index, "_references", None))
    return make_index, args if frequency is None else (*args, frequency)


def make_index(kind: Any, values: Any, name: Any, refs: Any, frequency: Any = None) -> Any:
    """Make an index that looks at values, and is known to the others that do."""
    made = kind._simple_new(values, name=name, refs=refs)
    if frequency is not None:
        made._freq = frequency
    return made


def reduce_arrow_backed(array: Any, capturing: Capturing) -> Reduced:
    """Take an array apart that keeps its values with Arrow: in the pieces that they are in."""
    state = dict(array.__dict__)
    if "_cache" in state:
        state["_cache"] = {}
    return make_arrow_backed, (type(array),), state, None, None, finish_arrow_backed


def make_arrow_backed(kind: Any) -> Any:
    """Make an array that is to keep values with Arrow."""
    return kind.__new__(kind)


def finish_arrow_backed(array: Any, state: dict[str, Any]) -> None:
    """Give an array its values."""
    array.__dict__.update(state)
