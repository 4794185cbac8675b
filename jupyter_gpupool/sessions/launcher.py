"""Starting the processes of workers.

Rules of this module: a launcher knows how to start a process on a node and how to end it, and nothing of
leases or Dask; what it tells the process goes through its standard input, which stays open: a worker whose
input ends has lost its kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from typing import BinaryIO, Protocol

from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import AttachDoc
from jupyter_gpupool.sessions.errors import WorkerNotHere
from jupyter_gpupool.sessions.order import WorkerOrder

#: How much of a worker's output is looked at for its last words, bytes.
_TAIL_BYTES = 4096
#: How long a process may take to end after SIGTERM, seconds.
TERM_SECONDS = 3.0


class WorkerProcess(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its number on its node."""

    async def wait(self) -> int:
        """Wait for its end, and return its exit status."""

    async def end(self) -> None:
        """End it: asked first, then made to; bounded. Nothing when it has ended."""

    def kill(self) -> None:
        """End it at once; waits for nothing."""

    def last_words(self) -> str:
        """Return the last line that it wrote; empty when there is none."""


class WorkerLauncher(Protocol):
    """Starts processes on nodes.

    This is the seam for workers on other machines: an agent there starts the same command with the same
    order.
    """

    def check(self, attach: AttachDoc) -> None:
        """Raise `WorkerNotHere` where no process can be started on a lease's node."""

    async def launch(self, order: WorkerOrder, environment: Mapping[str, str]) -> WorkerProcess:
        """Start a process, and tell it what to do."""


class LocalLauncher:
    """Starts workers on this machine, as children of this process."""

    def check(self, attach: AttachDoc) -> None:
        """Raise `WorkerNotHere` for another machine."""
        here = socket.gethostname()
        if attach.hostname and attach.hostname != here:
            raise WorkerNotHere(
                f"A worker's lease was granted on node {attach.hostname}, and this kernel, on {here}, starts "
                "workers on its own node only.",
                hint="Ask for devices of this node, or say where others reach it: GPUPoolCluster(host=…).",
            )

    async def launch(self, order: WorkerOrder, environment: Mapping[str, str]) -> WorkerProcess:
        """Start a process, and tell it what to do."""
        # Without a name: it is gone with the last of the two processes, however these end.
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the worker's, for as long as it lives
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "jupyter_gpupool.sessions.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(environment),
                start_new_session=True,  # the stop button interrupts the kernel, not its workers
            )
        except BaseException:
            output.close()
            raise
        started = LocalProcess(process, output)
        try:
            if process.stdin is not None:
                process.stdin.write(encode(order) + b"\n")
                await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return started  # it has ended, which its waiter sees
        except BaseException:
            started.kill()
            raise
        return started


class LocalProcess:
    """A child of this process."""

    def __init__(self, process: asyncio.subprocess.Process, output: BinaryIO) -> None:
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for its end."""
        return await self._process.wait()

    async def end(self) -> None:
        """End it: asked first, then made to."""
        try:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.terminate()
                async with asyncio.timeout(TERM_SECONDS):
                    await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        finally:
            self._output.close()

    def kill(self) -> None:
        """End it at once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def last_words(self) -> str:
        """Return the last line that it wrote."""
        if self._output.closed:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        lines = [line.strip() for line in tail.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")
