"""The pool service's care for its agent: there is one, and a new one when it died.

Rules of this module: an agent that runs already is taken as it is; agents outlive the service that started
them; nothing is polled while one lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jupyter_gpupool.cluster import lockfile
from jupyter_gpupool.protocol import names

logger = logging.getLogger(__name__)

#: How long a new agent may take until it has its lock, seconds (importing Dask takes most of it).
START_SECONDS = 20.0
#: How often that is looked at, seconds.
LOOK_SECONDS = 0.05
#: Pause before a new agent is started, when agents keep dying, seconds: first and longest.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0
#: An agent that lived this long was well, seconds.
WELL_SECONDS = 10.0
#: How long an agent may take to end when it is asked to, seconds.
STOP_SECONDS = 5.0


class AgentSupervisor:
    """Keeps one agent running in a runtime directory.

    Parameters
    ----------
    runtime : Path
        The runtime directory.
    arguments : sequence of str
        What follows ``python -m jupyter_gpupool agent``.
    command : sequence of str or None
        What to run instead of that (for tests and other launchers).
    """

    def __init__(
        self,
        runtime: Path,
        arguments: Sequence[str] = ("--embedded",),
        *,
        command: Sequence[str] | None = None,
    ) -> None:
        self._runtime = runtime
        self._command = [
            *(command or (sys.executable, "-m", "jupyter_gpupool", "agent")),
            *arguments,
        ]
        self._lock = runtime / names.AGENT_LOCK
        self._task: asyncio.Task[None] | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to care, in the background."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._care())

    async def close(self) -> None:
        """Care no longer; the agent lives on, with its holders."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._reap()

    async def stop(self) -> None:
        """Care no longer, and see the agent end: by itself if it was ordered to, else by SIGTERM.

        Holders that it has stay attached, and are adopted by the next agent.
        """
        await self.close()
        pidfd = lockfile.holder(self._lock)
        if pidfd is None:
            return
        try:
            if await _ended(pidfd, STOP_SECONDS / 5):
                return
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            if not await _ended(pidfd, STOP_SECONDS):
                logger.warning("The agent in %s does not end", self._runtime)
        finally:
            os.close(pidfd)
            self._reap()

    async def _care(self) -> None:
        """Find or start an agent, wait until it ends, and begin again."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            pidfd = lockfile.holder(self._lock)
            if pidfd is None:
                pidfd = await self._spawn()
            began = time.monotonic()
            if pidfd is not None:
                try:
                    await _ended(pidfd, None)
                finally:
                    os.close(pidfd)
                logger.warning("The agent in %s ended; another is started", self._runtime)
            self._reap()
            well = time.monotonic() - began >= WELL_SECONDS
            pause = FIRST_PAUSE_SECONDS if well else min(pause * 2, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _spawn(self) -> int | None:
        """Start an agent and wait until it has the lock; None when it failed."""
        logs = self._runtime / names.LOGS_DIR
        logs.mkdir(mode=0o700, exist_ok=True)
        log = logs / "agent.log"
        try:
            self._child = self._launch(log)
        except OSError as error:
            logger.error("No agent can be started (%s): %s", " ".join(self._command), error)
            return None
        return await self._signed(log)

    def _launch(self, log: Path) -> subprocess.Popen[bytes]:
        """Start an agent in a session of its own, so that no terminal and no service takes it along."""
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                cwd=self._runtime,
                start_new_session=True,
            )
        finally:
            os.close(handle)

    async def _signed(self, log: Path) -> int | None:
        """Wait until an agent has the lock; None when the child ended or took too long."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            pidfd = lockfile.holder(self._lock)
            if pidfd is not None:
                return pidfd
            if self._child is None or self._child.poll() is not None:
                break
            await asyncio.sleep(LOOK_SECONDS)
        logger.error("The agent did not start; its log is %s", log)
        return None

    def _reap(self) -> None:
        """Take the exit status of an agent of ours that ended; one that lives is let go."""
        if self._child is not None:
            if self._child.poll() is None:
                # It outlives us on purpose: Popen shall not complain about that.
                self._child.returncode = 0
            self._child = None


async def _ended(pidfd: int, seconds: float | None) -> bool:
    """Wait until a process has ended, at most so long."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True
