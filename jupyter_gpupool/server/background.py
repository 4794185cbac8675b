"""Running something that blocks beside the server's loop.

Rule of this module: the server never waits for it, not even when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


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
