"""Fill devices up: keep the largest holes for large requests, and trouble for last."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.core.devices import Health
from jupyter_gpupool.core.policies.place import Candidate


def best_fit(candidates: Sequence[Candidate]) -> Candidate:
    """Choose a healthy device with the least left over: of compute, then of memory, then by id.

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
            it.device.health is not Health.HEALTHY,
            it.left_milli,
            it.left_bytes,
            it.device.id,
        ),
    )
