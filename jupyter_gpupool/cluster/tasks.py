"""Work of an agent that nobody waits for.

Rule of this module: a fault is logged, not lost; what was begun is finished before the agent ends, and what
was put off is left to the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class Tasks:
    """Runs work in the background, now or later."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._spent)

    def later(self, seconds: float, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call something after a pause, unless everything is closed by then."""

        def unless_closed() -> None:
            if not self._closed:
                call(*args, **kwargs)

        asyncio.get_running_loop().call_later(seconds, unless_closed)

    async def close(self) -> None:
        """Finish what was begun; begin nothing more that was put off."""
        self._closed = True
        await asyncio.gather(*self._running, return_exceptions=True)

    def _spent(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("Work on a holder failed", exc_info=task.exception())
