"""Elements of arrays that are objects (or strings of their own): taken out and put in one by one.

Rule of this module: what is taken out are the objects themselves; fields of a structure that are plain bytes
stay arrays.
"""

from __future__ import annotations

from typing import Any


def take(array: Any) -> Any:
    """Take the elements out of an array, in the order of its memory.

    Parameters
    ----------
    array : numpy.ndarray
        Of objects, of `StringDType`, or of a structure with such fields.

    Returns
    -------
    list, dict or numpy.ndarray
        The elements; by name of the field where it is a structure; an array where it is plain.
    """
    import numpy as np

    plain = array.view(np.ndarray) if type(array) is not np.ndarray else array
    if plain.dtype.names is not None and plain.dtype.hasobject:
        return {name: take(plain[name]) for name in plain.dtype.names}
    if plain.dtype.hasobject:
        return plain.reshape(-1, order="C").tolist() if plain.ndim else [plain[()]]
    return plain.copy()


def put(array: Any, taken: Any) -> None:
    """Put elements into an array of the same shape and type."""
    import numpy as np

    plain = array.view(np.ndarray) if type(array) is not np.ndarray else array
    if isinstance(taken, dict):
        for name, field in taken.items():
            put(plain[name], field)
    elif isinstance(taken, np.ndarray):
        plain[...] = taken
    elif plain.dtype == object:
        plain[...] = np.fromiter(taken, object, count=len(taken)).reshape(plain.shape)
    else:
        plain[...] = np.array(taken, dtype=plain.dtype).reshape(plain.shape)
