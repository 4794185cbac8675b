"""A process that a launcher started, or took over from an earlier agent.

Rules of this module: it is watched by a pidfd on the loop; it is signalled only while that says that it is
the same process; every wait for its end is bounded or the caller's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable

from jupyter_gpupool.cluster.launchers.base import TERM_SECONDS, Exit, LaunchRecord
from jupyter_gpupool.cluster.launchers.output import Output
from jupyter_gpupool.cluster.peer import is_alive

#: Sends a signal to a process group as whoever may: the group, and the signal's number.
SignalGroup = Callable[[int, int], Awaitable[None]]
#: How often a process's output is looked at, seconds.
TRIM_SECONDS = 30.0
#: How long what started a process may take to end after it, seconds.
FRONT_SECONDS = 10.0


async def signal_group(group: int, number: int) -> None:
    """Signal a group as this process's own user."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


class LaunchedProcess:
    """One process, watched.

    Parameters
    ----------
    record : LaunchRecord
        Which it is.
    pidfd : int
        A descriptor of it, owned by this object.
    front : subprocess.Popen or None
        This process's child that has its exit status: the process itself, or what started it; None when
        there is none any more.
    output : Output
        Its output.
    signal_group : callable
        How it is signalled.
    """

    def __init__(
        self,
        record: LaunchRecord,
        pidfd: int,
        front: subprocess.Popen[bytes] | None,
        output: Output,
        send: SignalGroup = signal_group,
    ) -> None:
        self.record = record
        self._pidfd = pidfd
        self._front = front
        self._output = output
        self._send = send
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pidfd, self._mark_ended)
        self._trimming = self._loop.call_later(TRIM_SECONDS, self._trim)

    @property
    def pid(self) -> int:
        """Its number."""
        return self.record.process.pid

    async def wait(self) -> Exit:
        """Wait for its end."""
        await self._ended.wait()
        code = None if self._front is None else await self._front_status(self._front)
        words = self.last_words()
        if code is None:
            return Exit(status=None, signal=None, last_words=words)
        if code < 0:
            return Exit(status=None, signal=-code, last_words=words)
        return Exit(status=code, signal=None, last_words=words)

    async def signal(self, number: int) -> None:
        """Send a signal to its group, while it is there."""
        if self._pidfd >= 0 and is_alive(self._pidfd):
            await self._send(self.pid, number)

    async def end(self, *, seconds: float = TERM_SECONDS) -> Exit:
        """End it: asked first, then made to."""
        await self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            await self.signal(signal.SIGKILL)
            await self._ended.wait()
        front = self._front
        if front is not None and front.pid == self.pid and front.returncode is None:
            await self._send(self.pid, signal.SIGKILL)  # its number is its own until it is waited for
        return await self.wait()

    def last_words(self) -> str:
        """Return the last line that it wrote."""
        return self._output.last_words()

    def close(self) -> None:
        """Let go of it, and remove its output if it has ended."""
        ended = self._ended.is_set() or self._pidfd < 0 or not is_alive(self._pidfd)
        self.release()
        if ended:
            self._output.remove()

    def release(self) -> None:
        """Let go of it."""
        self._trimming.cancel()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _mark_ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._trimming.cancel()
        self._ended.set()

    def _trim(self) -> None:
        self._output.trim()
        self._trimming = self._loop.call_later(TRIM_SECONDS, self._trim)

    async def _front_status(self, front: subprocess.Popen[bytes]) -> int | None:
        """Return the exit status that what started it passes on; None when it does not end."""
        try:
            return await asyncio.to_thread(front.wait, FRONT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
