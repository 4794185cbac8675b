"""CuPy in name only: its default memory pool."""

from __future__ import annotations

import os

__version__ = "14.0.1"


class _Pool:
    def __init__(self) -> None:
        self.limit = int(os.environ.get("CUPY_GPU_MEMORY_LIMIT", "0"))

    def get_limit(self) -> int:
        return self.limit

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self.limit = size or 0


_pool = _Pool()


def get_default_memory_pool() -> _Pool:
    return _pool
