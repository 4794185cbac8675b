"""How an array looks at memory: from where, with which strides.

Rule of this module: nothing here copies; an array that is made to look at another one has it as its base.
"""

from __future__ import annotations

from typing import Any

#: Strides of an owner in the order of C, and of Fortran.
C_ORDER, F_ORDER = "C", "F"


def address(array: Any) -> int:
    """Return where an array's first element is."""
    return int(array.__array_interface__["data"][0])


def bounds(array: Any) -> tuple[int, int]:
    """Return the first byte that an array looks at, and the one behind the last."""
    low = high = address(array)
    if not array.size:
        return low, low
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def order(array: Any) -> Any:
    """Return an owner's strides: a letter where that says it all."""
    if array.flags.c_contiguous:
        return C_ORDER
    return F_ORDER if array.flags.f_contiguous else array.strides


def by_element(dtype: Any) -> bool:
    """Tell whether bytes alone do not say what the elements are."""
    return bool(dtype.hasobject) or dtype.char == "T"


def empty(kind: Any, dtype: Any, shape: tuple[int, ...], strides: Any) -> Any:
    """Make an array that owns its memory.

    Parameters
    ----------
    kind : type or None
        A class derived from ``ndarray``; None for that itself.
    dtype : numpy.dtype
        Type of its elements.
    shape : tuple of int
        Its shape.
    strides : str or tuple of int
        `C_ORDER`, `F_ORDER`, or strides that leave no byte out.
    """
    import numpy as np

    if isinstance(strides, str):
        if kind is None:
            return np.empty(shape, dtype, order=strides)  # type: ignore[call-overload]
        return np.ndarray.__new__(kind, shape, dtype, order=strides)  # type: ignore[arg-type]
    pattern = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
    made = np.empty_like(pattern, order="K")
    return made if kind is None else made.view(kind)


def flat(array: Any) -> Any:
    """Return an array's memory as single bytes; it must leave none of them out."""
    import numpy as np

    plain = array.view(np.ndarray) if type(array) is not np.ndarray else array
    if not plain.flags.forc:
        low, high = bounds(plain)
        first = tuple(0 if stride >= 0 else -1 for stride in plain.strides)
        if first and -1 in first:
            plain = plain[tuple(slice(None, None, -1 if s < 0 else 1) for s in plain.strides)]
        turned = plain.transpose(sorted(range(plain.ndim), key=lambda axis: -plain.strides[axis]))
        if turned.flags.c_contiguous:
            return turned.reshape(-1).view(np.uint8)
        return _bytes_between(plain, low, high)
    return plain.reshape(-1, order="A").view(np.uint8)


class _Between:
    """What numpy can look at by address."""

    def __init__(self, array: Any, low: int, nbytes: int) -> None:
        self.array = array
        where = (low, not array.flags.writeable)
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": where}


def _bytes_between(array: Any, low: int, high: int) -> Any:
    import numpy as np

    return np.asarray(_Between(array, low, high - low))


def look(
    kind: Any, base: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Any:
    """Make an array that looks at the memory of an object.

    Parameters
    ----------
    kind : type or None
        A class derived from ``ndarray``; None for that itself.
    base : object
        Whose memory it is: an array, a tensor, a storage, or what has the buffer protocol.
    dtype, shape, strides : numpy.dtype, tuple of int, tuple of int
        As of arrays.
    offset : int
        Bytes from the first byte of that memory (from its first element, where it is an array).
    """
    import numpy as np

    if isinstance(base, np.ndarray):
        return _look_at_array(kind, base, dtype, shape, strides, offset)
    if hasattr(base, "data_ptr"):
        from jupyter_gpupool.state.memory.storages import as_array

        whole = as_array(base)
        if _same(whole, dtype, shape, strides) and not offset and kind is None:
            return whole
        return _look_at_array(kind, whole, dtype, shape, strides, offset)
    return np.ndarray.__new__(kind or np.ndarray, shape, dtype, base, offset, strides)


def _same(array: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return bool(array.dtype == dtype and array.shape == shape and array.strides == strides)


def _look_at_array(
    kind: Any, base: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Any:
    import numpy as np

    if not offset and _same(base, dtype, shape, strides):
        made = base.view(kind or np.ndarray)
        made.dtype = dtype
        return made
    if by_element(base.dtype):
        made = _look_at_elements(base, dtype, shape, strides, offset)
        return made if kind is None else made.view(kind)
    below = address(base) - bounds(base)[0]
    made = np.ndarray.__new__(np.ndarray, shape, dtype, flat(base), offset + below, strides)
    return made if kind is None else made.view(kind)


def _look_at_elements(
    base: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Any:
    """Look at objects: numpy makes no such array from bytes, but cuts one out of another."""
    import numpy as np

    start, within = divmod(offset, base.itemsize) if base.itemsize else (0, 0)
    line = base.view(np.ndarray).reshape(-1, order="A")
    if dtype != base.dtype:
        line = line.getfield(dtype, within)
    step = base.itemsize
    if len(shape) == 1 and strides[0] > 0 and strides[0] % step == 0:
        by = strides[0] // step
        return line[start : start + shape[0] * by : by][: shape[0]]
    return np.lib.stride_tricks.as_strided(line[start:], shape, strides)
