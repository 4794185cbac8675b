"""Waiting in tests: by looking, with a deadline, never by sleeping and hoping."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], *, what: str, seconds: float = 20.0) -> None:
    """Wait until ``condition()`` is true, and fail with ``what`` when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


def wait_for(condition: Callable[[], object], what: str, *, seconds: float = 20.0) -> None:
    """Do the same where no event loop runs."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.01)
