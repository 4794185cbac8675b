"""A child process that does what its parent says: what probes and the self-test exceed limits with.

Rules of this module: every answer is awaited for a bounded time; whatever happens, the child ends with the
`Hand` (and, because it reads its stdin, with its parent).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_gpupool.backends.base import BackendError, ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS

#: For how long a child may take to end by itself, seconds.
_END_SECONDS = 10.0


class HandFailed(BackendError):
    """Raised when a child ended or did not answer in time. What it should have shown is not known."""

    code = "hand_failed"


class Hand:
    """A child that answers one JSON object a line.

    Parameters
    ----------
    command : sequence of str
        Arguments for this interpreter: the child's script, or ``-m`` and a module.
    environment : mapping, optional
        Its environment; this process's by default.
    """

    def __init__(self, *command: str, environment: Mapping[str, str] | None = None) -> None:
        self._buffer = b""
        self._process = subprocess.Popen(  # noqa: S603 - our own script, by this interpreter
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # Ctrl-C reaches the parent, which ends it
        )
        self.pid = self._process.pid
        stat = ProcFS().stat(self.pid)  # it is ours: not even a zombie is gone before we wait for it
        #: The child, for life.
        self.mark = ProcessMark(pid=self.pid, start_ticks=0) if stat is None else stat.mark

    def ask(self, do: str, *, within_seconds: float = 30.0, **arguments: Any) -> dict[str, Any]:
        """Have the child do something, and return its answer.

        Raises
        ------
        HandFailed
            If it ended, or does not answer in time.
        """
        self.begin(do, **arguments)
        return self.answer(do, within_seconds=within_seconds)

    def begin(self, do: str, **arguments: Any) -> None:
        """Tell the child what to do, and do not wait."""
        line = json.dumps({"do": do, **arguments}) + "\n"
        try:
            self._stdin.write(line.encode())
            self._stdin.flush()
        except OSError as error:
            raise HandFailed(f"The child that should “{do}” has ended.") from error

    def answer(self, do: str, *, within_seconds: float = 30.0) -> dict[str, Any]:
        """Return the next answer."""
        until = time.monotonic() + within_seconds
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                raise HandFailed(f"The child did not “{do}” within {within_seconds:g} s.")
            part = os.read(self._stdout.fileno(), 65536)
            if not part:
                raise HandFailed(f"The child that should “{do}” has ended ({self._ended()}).")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def alive(self) -> bool:
        """Say whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it and its children as a crash would, and reap it."""
        self._kill_all()
        self._process.wait(timeout=_END_SECONDS)

    def close(self) -> None:
        """Let it end by itself, or else end it."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._stdout.close()

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._kill_all()
        self.close()

    def _kill_all(self) -> None:
        """Kill everything in its session, while its number is still its own."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self.pid, signal.SIGKILL)

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"status {self._process.wait(timeout=2.0)}"
        return "its output is closed"


def script(module_file: str, name: str) -> Sequence[str]:
    """Return the arguments that run ``name`` beside a module, without our package and the user's paths."""
    return ["-I", str(Path(module_file).with_name(name))]
