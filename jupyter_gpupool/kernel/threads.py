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
    """A cap on the threads of the numeric libraries in this process."""

    def __init__(self) -> None:
        self._torch_before: int | None = None
        self._pools_before: Any = None
        self.threads: int | None = None

    def apply(self, threads: int | None) -> None:
        """Put a cap on; None leaves the libraries alone. May be called again with another number."""
        if threads is None:
            return
        if self.threads is None:
            self._torch_before = _torch_threads()
        self.threads = threads
        _set_torch_threads(threads)
        if limits := _pool_limits(threads):
            self._pools_before = self._pools_before or limits

    def restore(self) -> None:
        """Take the cap off; libraries loaded meanwhile get what they would have taken without it."""
        if self.threads is None:
            return
        torch_now = _torch_threads()
        if self._pools_before is not None:
            self._pools_before.restore_original_limits()
        else:
            _pool_limits(_default_threads())
        if torch_now is not None:  # last: torch shares its pool with the ones above
            chosen = torch_now != self.threads  # by the user, meanwhile: leave it
            _set_torch_threads(torch_now if chosen else self._torch_before or _default_threads())
        self.threads = self._pools_before = None


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


def _pool_limits(threads: int) -> Any:
    """Cap the BLAS and OpenMP pools that are loaded; None when there is nothing to cap them with."""
    if "numpy" not in sys.modules and "scipy" not in sys.modules:
        return None
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    return threadpool_limits(limits=threads)
