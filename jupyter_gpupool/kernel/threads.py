"""How many threads numeric libraries use: capped while a lease is held, and put back afterwards.

Rule of this module: no library is imported for the sake of it; one that is not loaded yet reads the
environment when it is.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadCap:
    """A cap on the threads of the numeric libraries in this process: it lowers, and never raises."""

    def __init__(self) -> None:
        self._torch_before: int | None = None
        self._torch_set: int | None = None
        self._pools_before: Any = None
        self.threads: int | None = None

    def apply(self, threads: int | None) -> None:
        """Put a cap on; None leaves the libraries alone. May be called again with another number."""
        if threads is None:
            return
        if self.threads is None:
            self._torch_before = _torch_threads()
        self.threads = threads
        self._cap_pools(threads)
        self._torch_set = min(self._torch_before or threads, threads)
        _set_torch_threads(self._torch_set)  # last: torch shares its pool with the ones above

    def _cap_pools(self, threads: int) -> None:
        """Lower the pools that have more; another cap starts from what there was before the first."""
        if self._pools_before is not None:
            self._pools_before.restore_original_limits()
            self._pools_before = None
        if larger := {name: threads for name, size in _pool_sizes().items() if size > threads}:
            self._pools_before = _pool_limits(larger)

    def restore(self) -> None:
        """Take the cap off; libraries loaded meanwhile get what they would have taken without it."""
        if self.threads is None:
            return
        torch_now = _torch_threads()
        if self._pools_before is not None:
            self._pools_before.restore_original_limits()
        elif self._torch_before is None:  # what there is was loaded under the cap
            _pool_limits(_default_threads())
        if torch_now is not None:  # last: torch shares its pool with the ones above
            chosen = torch_now != self._torch_set  # by the user, meanwhile: leave it
            _set_torch_threads(torch_now if chosen else self._torch_before or _default_threads())
        self.threads = self._torch_set = self._pools_before = None


def _default_threads() -> int:
    """Return how many threads a library takes that is loaded now."""
    configured = os.environ.get("OMP_NUM_THREADS", "")
    return int(configured) if configured.isdigit() and int(configured) else usable_cores()


def _torch_threads() -> int | None:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if hasattr(torch, "get_num_threads") else None  # type: ignore[union-attr]


def _set_torch_threads(threads: int) -> None:
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):
        torch.set_num_threads(threads)  # type: ignore[union-attr]


def _pool_sizes() -> dict[str, int]:
    """Return how many threads the loaded BLAS and OpenMP pools have, by the libraries' names."""
    if "numpy" not in sys.modules and "scipy" not in sys.modules:
        return {}
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return {}
    sizes: dict[str, int] = {}
    for pool in threadpool_info():
        name = str(pool["prefix"])
        sizes[name] = max(sizes.get(name, 0), int(pool["num_threads"]))
    return sizes


def _pool_limits(threads: int | dict[str, int]) -> Any:
    """Set the BLAS and OpenMP pools that are loaded, or some of them; None when there are none."""
    if "numpy" not in sys.modules and "scipy" not in sys.modules:
        return None
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    return threadpool_limits(limits=threads)
