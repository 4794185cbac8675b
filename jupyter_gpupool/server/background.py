"""What runs beside a server's requests: something that blocks, and tasks for as long as the server lives.

Rule of this module: the server never waits for what blocks, not even when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class LifeTask:
    """A task that is started once, and ended with the server.

    Parameters
    ----------
    name : str
        Of the task, for whoever debugs the server.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start it, if it has not been; returns at once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(run(), name=self._name)

    async def end(self) -> None:
        """Cancel it, and wait until it has ended."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None


async def in_daemon_thread(function: Callable[[], T], *, name: str) -> T:
    """Run ``function`` in a thread of its own and return what it returns.

    Not ``asyncio.to_thread``: its threads are joined when the interpreter ends, so a server that is stopped
    while it starts the pool would hang for as long as that takes.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(setter: Callable[[], None]) -> None:
        if not outcome.done():  # who awaited may have been cancelled
            setter()

    def deliver(setter: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(settle, setter)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # whatever it is, it belongs to who awaits
            failure = error
            deliver(lambda: outcome.set_exception(failure))
        else:
            deliver(lambda: outcome.set_result(result))

    threading.Thread(target=work, name=name, daemon=True).start()
    return await outcome
