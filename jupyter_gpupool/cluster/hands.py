"""The one thread in which an agent touches processes and devices.

Rule of this module: backends are called here and nowhere else, one call after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Hands:
    """Runs blocking calls in one thread, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpupool-backends")

    async def do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one call to its end, also if the caller is cancelled meanwhile."""
        work = self._thread.submit(call, *args, **kwargs)
        return await asyncio.shield(asyncio.wrap_future(work))

    def close(self) -> None:
        """Finish what was begun, and end the thread."""
        self._thread.shutdown(wait=True)
