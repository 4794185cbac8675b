"""What a lease's environment becomes in a holder that has settings of its own for its frameworks.

Rules of this module: pure; what a user set stays, except where it would take more than the lease; a variable
that an installed framework would not understand is left out, because frameworks fail on those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

#: Settings of PyTorch's allocator: the name that old and new versions read, and the newer one.
TORCH_CONFIG, TORCH_CONFIG_NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
#: The setting among them that caps a process, as a part of the device's memory.
TORCH_FRACTION = "per_process_memory_fraction"
#: The oldest PyTorch that surely knows it (it came after 2.9): others refuse to start CUDA with it.
TORCH_SINCE = (2, 11)
#: JAX: the part of the device that its allocator takes. It refuses to start when both names are set.
XLA_FRACTION, XLA_FRACTION_NEW = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"
#: CuPy: bytes, or a percentage of the device ("80%").
CUPY_LIMIT = "CUPY_GPU_MEMORY_LIMIT"
#: TensorFlow: take memory as it is needed, and not all of the device at once.
TENSORFLOW_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


def cap_environment(memory_bytes: int, total_bytes: int) -> dict[str, str]:
    """Return the variables by which frameworks keep to a part of a device's memory.

    Parameters
    ----------
    memory_bytes : int
        What they may take, bytes.
    total_bytes : int
        All memory of the device, bytes.
    """
    fraction = f"{min(1.0, memory_bytes / max(1, total_bytes)):.4f}"
    return {
        TORCH_CONFIG: f"{TORCH_FRACTION}:{fraction}",
        XLA_FRACTION: fraction,
        CUPY_LIMIT: str(memory_bytes),
        TENSORFLOW_GROWTH: "true",
    }


def applied(
    environment: Mapping[str, str], before: Mapping[str, str], frameworks: Mapping[str, str]
) -> dict[str, str]:
    """Return what a holder sets of what it was told.

    Parameters
    ----------
    environment : mapping
        What it was told.
    before : mapping
        Its environment without a lease.
    frameworks : mapping
        Installed frameworks and their versions ("pytorch": "2.13.0").
    """
    result = dict(environment)
    if ours := result.pop(TORCH_CONFIG, ""):
        result |= _torch(ours, before, frameworks.get("pytorch", ""))
    part = result.pop(XLA_FRACTION, "")
    if part:
        name = XLA_FRACTION_NEW if XLA_FRACTION_NEW in before else XLA_FRACTION
        result[name] = _lower(part, before.get(name, ""))
    if CUPY_LIMIT in result:
        result[CUPY_LIMIT] = _lower_limit(result[CUPY_LIMIT], before.get(CUPY_LIMIT, ""), part)
    if TENSORFLOW_GROWTH in before:
        result.pop(TENSORFLOW_GROWTH, None)
    return result


def version(text: str) -> tuple[int, ...]:
    """Return the numbers a version begins with: ``2.13.0+cu130`` is ``(2, 13, 0)``."""
    found = re.match(r"\d+(\.\d+)*", text.strip())
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def _torch(ours: str, before: Mapping[str, str], installed: str) -> dict[str, str]:
    """Extend PyTorch's settings under the names that the user set, else under the newer one."""
    if version(installed) < TORCH_SINCE:
        return {}
    fraction = ours.partition(":")[2]
    names = [name for name in (TORCH_CONFIG, TORCH_CONFIG_NEW) if before.get(name)] or [TORCH_CONFIG_NEW]
    return {name: _with_fraction(before.get(name, ""), fraction) for name in names}


def _with_fraction(settings: str, fraction: str) -> str:
    """Add the cap to a list of settings, or lower the one that is there."""
    kept = []
    for setting in _settings(settings):
        key, _, value = setting.partition(":")
        if key.strip() == TORCH_FRACTION:
            fraction = _lower(fraction, value)
        else:
            kept.append(setting)
    return ",".join([*kept, f"{TORCH_FRACTION}:{fraction}"])


def _settings(text: str) -> Iterator[str]:
    """Split at commas, but not within brackets: ``roundup_power2_divisions:[256:1,512:2]`` is one."""
    yield from (part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip())


def _lower(ours: str, theirs: str) -> str:
    """Return the lower of two fractions; theirs may be anything."""
    try:
        return theirs if 0.0 < float(theirs) < float(ours) else ours
    except ValueError:
        return ours


def _lower_limit(ours: str, theirs: str, fraction: str) -> str:
    """Return the lower of two sizes; theirs may be a percentage of the device, or anything."""
    percent = theirs.strip().removesuffix("%")
    if percent != theirs.strip():
        ours_percent = str(100 * float(fraction)) if fraction else "0"
        return theirs if _lower(ours_percent, percent) == percent else ours
    return theirs if theirs.isdigit() and 0 < int(theirs) < int(ours) else ours
