"""How the variables of a lease follow a resize: numbers in them grow and shrink with the share.

Rule of this module: pure; it knows the forms that the libraries define, not how large a share is, so it
scales what the agent wrote. What a process has read already is not changed by it: its children read it anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBER = r"\d+(?:\.\d+)?"
#: Name -> the numbers in its value that are memory.
_MEMORY: dict[str, re.Pattern[str]] = {
    "PYTORCH_ALLOC_CONF": re.compile(rf"(?<=per_process_memory_fraction:){_NUMBER}"),
    "PYTORCH_CUDA_ALLOC_CONF": re.compile(rf"(?<=per_process_memory_fraction:){_NUMBER}"),
    "XLA_CLIENT_MEM_FRACTION": re.compile(_NUMBER),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": re.compile(_NUMBER),
    "CUPY_GPU_MEMORY_LIMIT": re.compile(_NUMBER),
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": re.compile(rf"(?<==){_NUMBER}"),
}
#: Name -> the numbers in its value that are compute.
_COMPUTE: dict[str, re.Pattern[str]] = {
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": re.compile(_NUMBER),
}
#: Every variable that carries a size.
SIZED = frozenset(_MEMORY) | frozenset(_COMPUTE)
#: Numbers that are parts of a whole, and the whole.
_WHOLE: dict[str, float] = {
    "PYTORCH_ALLOC_CONF": 1.0,
    "PYTORCH_CUDA_ALLOC_CONF": 1.0,
    "XLA_CLIENT_MEM_FRACTION": 1.0,
    "XLA_PYTHON_CLIENT_MEM_FRACTION": 1.0,
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": 100.0,
}


def scaled(values: dict[str, str], *, compute: float, memory: float) -> dict[str, str]:
    """Return those of some variables that carry a size, scaled.

    Parameters
    ----------
    values : dict of str to str
        As the agent wrote them for the share that they were made for.
    compute, memory : float
        The new share in terms of that one: 2 is twice as much.
    """
    found: dict[str, str] = {}
    for patterns, factor in ((_MEMORY, memory), (_COMPUTE, compute)):
        for name in patterns.keys() & values.keys():
            found[name] = patterns[name].sub(_scaler(factor, _WHOLE.get(name)), values[name])
    return found


def _scaler(factor: float, whole: float | None) -> Callable[[re.Match[str]], str]:
    """Scale a number in the form it was written in: whole stays whole, and rounds down."""

    def scale(match: re.Match[str]) -> str:
        value = float(match[0]) * factor
        value = value if whole is None else min(value, whole)
        if "." not in match[0] and whole != 1.0:
            return str(max(1, int(value + 1e-6)))
        return f"{value:.4f}".rstrip("0").rstrip(".")

    return scale
