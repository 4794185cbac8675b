"""Where the ranks of a training meet: in the memory of their cluster's scheduler.

Rules of this module: they reach it by the cluster's own connections, so nothing listens for it, and its keys
are the cluster's; a meeting has a name of its own, and is forgotten with its run. torch is imported in
workers only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

#: Name of the call by which workers reach it.
CALL = "gpupool_meet"
#: How long a single question waits at the scheduler for its answer, seconds.
_WAIT_SECONDS = 5.0
#: How long a rank waits for what another one says, seconds.
MEET_SECONDS = 120.0


class Meetings:
    """What ranks have told each other, by meeting and key; it lives on the scheduler's loop."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, bytes]] = {}
        self._news = asyncio.Condition()

    def open(self, meeting: str) -> None:
        """Begin a meeting."""
        self._told[meeting] = {}

    def close(self, meeting: str) -> None:
        """Forget it; whoever waits still learns that it is over."""
        self._told.pop(meeting, None)

    async def answer(self, meeting: str, do: str, keys: list[str], value: bytes = b"") -> Any:
        """Do what a rank asks for; False when its meeting is over."""
        told = self._told.get(meeting)
        if told is None:
            return False
        (key, *_) = keys
        if do == "set":
            told[key] = value
        elif do == "add":
            told[key] = str(int(told.get(key, b"0")) + int(value)).encode()
        elif do == "delete":
            return told.pop(key, None) is not None
        elif do == "wait":
            return await self._there(told, keys)
        elif do == "check":
            return all(it in told for it in keys)
        async with self._news:
            self._news.notify_all()
        return told.get(key)

    async def _there(self, told: dict[str, bytes], keys: list[str]) -> list[bytes] | None:
        """Return the values of some keys, as soon as all are there; None when they are not yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS), self._news:
                await self._news.wait_for(lambda: all(it in told for it in keys))
                return [told[it] for it in keys]
        return None


@contextlib.contextmanager
def meeting(scheduler: Any, name: str) -> Iterator[None]:
    """Have ranks meet at a scheduler of this process meanwhile."""
    handler = scheduler.handlers.get(CALL)
    meetings = handler.__self__ if handler is not None else Meetings()
    scheduler.handlers[CALL] = meetings.answer
    meetings.open(name)
    try:
        yield
    finally:
        meetings.close(name)


def store(worker: Any, name: str) -> Any:
    """Return what torch's ranks meet by, in a task of a worker.

    Parameters
    ----------
    worker : distributed.Worker
        Whose task asks.
    name : str
        Of the meeting.
    """
    from distributed.utils import sync
    from torch.distributed import Store

    def ask(do: str, keys: list[str], value: bytes = b"") -> Any:
        call = getattr(worker.scheduler, CALL)
        return sync(worker.loop, call, meeting=name, do=do, keys=keys, value=value)

    class MeetingStore(Store):  # type: ignore[misc]
        """Asks the scheduler."""

        def set(self, key: str, value: Any) -> None:
            ask("set", [key], value.encode() if isinstance(value, str) else bytes(value))

        def get(self, key: str) -> bytes:
            return _patiently(ask, [key])[0]

        def wait(self, keys: list[str], timeout: Any = None) -> None:
            _patiently(ask, keys, timeout.total_seconds() if timeout is not None else MEET_SECONDS)

        def add(self, key: str, value: int) -> int:
            return int(ask("add", [key], str(value).encode()))

        def check(self, keys: list[str]) -> bool:
            return bool(ask("check", keys))

        def delete_key(self, key: str) -> bool:
            return bool(ask("delete", [key]))

        def set_timeout(self, timeout: Any) -> None:
            """Take no other patience."""

    return MeetingStore()


def _patiently(ask: Any, keys: list[str], seconds: float = MEET_SECONDS) -> list[bytes]:
    """Wait until the other ranks have told something.

    Raises
    ------
    TimeoutError
        If they do not in time.
    RuntimeError
        If the run is over.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = ask("wait", keys)
        if found is False:
            raise RuntimeError("this run of the training is over")
        if found is not None:
            return [bytes(it) for it in found]
    raise TimeoutError(f"the other ranks did not come within {seconds:g} s")


def interface_of(address: str) -> str:
    """Return the name of the network interface that has an address of this machine; empty if none does.

    Parameters
    ----------
    address : str
        As Dask writes it: ``tls://10.0.0.7:8786``.
    """
    import psutil

    host = address.rpartition("//")[2].rpartition(":")[0].strip("[]")
    for name, found in psutil.net_if_addrs().items():
        if any(it.address.partition("%")[0] == host for it in found):
            return str(name)
    return ""
