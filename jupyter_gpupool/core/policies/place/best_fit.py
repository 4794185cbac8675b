"""Fill devices up: keep the largest holes for large requests."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.core.policies.place import Candidate


def best_fit(candidates: Sequence[Candidate]) -> Candidate:
    """Choose the device with the least left over: of compute, then of memory, then by id.

    Parameters
    ----------
    candidates : sequence of Candidate
        Devices on which the share fits; at least one.

    Returns
    -------
    Candidate
        The chosen one.
    """
    return min(
        candidates,
        key=lambda it: (
            it.free_compute_milli - it.compute_milli,
            it.free_memory_bytes - it.memory_bytes,
            it.device.id,
        ),
    )
