"""The one door to ``nvidia-cuda-mps-control``.

Rules of this module: one command a call, without a shell and bounded in time; the environment is made for
each call, so that two daemons never mix; an answer is parsed or refused, and a setting counts only as far as
it reads back (the program exits with 0 also for a command that it rejects).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from enum import Enum
from pathlib import Path

from jupyter_gpupool.backends.nvidia.mps.errors import (
    MPSHangs,
    MPSNotInstalled,
    MPSUnreachable,
    MPSUnreadable,
)

#: What the program is called.
PROGRAM = "nvidia-cuda-mps-control"
#: How long one call may take, seconds.
CALL_SECONDS = 3.0
#: How long a daemon may take until it listens, seconds.
START_SECONDS = 5.0
#: How much of an unreadable answer is shown.
_SHOWN_CHARACTERS = 80

MIB = 2**20
_LIMIT = re.compile(r"(\d+)\s*([GM])i?B?\s*$", re.ASCII | re.IGNORECASE)
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)\s*%?\s*$", re.ASCII)


class ServerStatus(Enum):
    """What state a server is in."""

    #: It makes its contexts on the devices.
    INITIALIZING = "INITIALIZING"
    #: It serves.
    ACTIVE = "ACTIVE"
    #: A client failed fatally: all clients on its devices have to end before it serves again.
    FAULT = "FAULT"


class MPSControl:
    """The control program.

    Parameters
    ----------
    program : str
        Its path, or its name on the path.
    call_seconds, start_seconds : float
        How long one call may take, and a daemon until it listens.
    """

    def __init__(
        self,
        program: str = "",
        *,
        call_seconds: float = CALL_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._program = program or PROGRAM
        self._seconds = call_seconds
        self._start_seconds = start_seconds

    def missing(self) -> str:
        """Say why the program cannot be called, one clause; empty when it can."""
        if shutil.which(self._program) is None:
            return f"{self._program} is not installed here"
        return ""

    def within(self, seconds: float) -> MPSControl:
        """Return the same door with another bound on each call."""
        return MPSControl(
            self._program, call_seconds=min(seconds, self._seconds), start_seconds=self._start_seconds
        )

    # --- daemons ------------------------------------------------------------------------------------

    def start(self, pipes: Path, logs: Path, *, devices: str, multiuser: bool) -> None:
        """Start a daemon; it listens when this returns, or an error says why not.

        Raises
        ------
        MPSUnreachable
            If it did not start; the message has what the program said.
        """
        options = ["-d", *(["-multiuser-server"] if multiuser else [])]
        visible = {"CUDA_VISIBLE_DEVICES": devices} if devices else {}
        code, said = self._call(options, "", self._environment(pipes, logs) | visible, self._start_seconds)
        if code:
            raise MPSUnreachable(f"The MPS control daemon did not start: {_shown(said)}.")
        self.servers(pipes)

    def quit(self, pipes: Path, *, wait_seconds: int) -> None:
        """Let a daemon end with its servers, clients or not, after so many seconds at most."""
        self.ask(pipes, "quit", "-t", str(wait_seconds), seconds=self._seconds + wait_seconds)

    # --- servers ------------------------------------------------------------------------------------

    def servers(self, pipes: Path) -> list[int]:
        """List the servers' processes."""
        return _pids(self.ask(pipes, "get_server_list"))

    def status(self, pipes: Path, server: int) -> ServerStatus:
        """Look at a server."""
        answer = self.ask(pipes, "get_server_status", str(server))
        for status in ServerStatus:
            if status.value in answer.upper().split():
                return status
        raise MPSUnreadable(f"MPS said of its server {server}: {_shown(answer)}.")

    def shut_down(self, pipes: Path, server: int) -> None:
        """Let a server end as soon as it has no clients."""
        self.ask(pipes, "shutdown_server", str(server))

    def clients(self, pipes: Path, server: int) -> list[int]:
        """List the processes that are clients of a server."""
        return _pids(self.ask(pipes, "get_client_list", str(server)))

    def terminate(self, pipes: Path, server: int, client: int) -> None:
        """Take a client's work off the device, so that it can be signalled without harm to the others."""
        self.ask(pipes, "terminate_client", str(server), str(client))

    # --- limits -------------------------------------------------------------------------------------

    def percentage(self, pipes: Path, server: int | None, *, wanted: float | None = None) -> float:
        """Read, or set and read, how much of the threads each client may use at most.

        Parameters
        ----------
        pipes : Path
            The daemon's directory.
        server : int or None
            A server, for the clients that it gets from now on; None for the next server.
        wanted : float, optional
            Percent to set first.
        """
        which = "default_active_thread_percentage" if server is None else "active_thread_percentage"
        of = [] if server is None else [str(server)]
        answer = self._last(pipes, which, of, [] if wanted is None else [f"{wanted:g}"])
        match = _PERCENTAGE.search(answer)
        if match is None or not 0 < float(match[1]) <= 100:
            raise MPSUnreadable(f"MPS gave as its thread percentage: {_shown(answer)}.")
        return float(match[1])

    def memory_mib(
        self, pipes: Path, server: int | None, uuid: str, *, wanted: int | None = None
    ) -> int | None:
        """Read, or set and read, how much of a device each client may use at most, MiB; None for no limit."""
        which = "default_device_pinned_mem_limit" if server is None else "device_pinned_mem_limit"
        of = [uuid] if server is None else [str(server), uuid]
        answer = self._last(pipes, which, of, [] if wanted is None else [f"{wanted}M"])
        if not answer:
            return None
        match = _LIMIT.search(answer)
        if match is None:
            raise MPSUnreadable(f"MPS gave as its memory limit: {_shown(answer)}.")
        return int(match[1]) * (1024 if match[2].upper() == "G" else 1) or None

    def _last(self, pipes: Path, which: str, of: list[str], wanted: list[str]) -> str:
        """Set a number if one is wanted, and read it: one call, of which the last line counts."""
        commands = [" ".join([f"set_{which}", *of, *wanted])] if wanted else []
        commands.append(" ".join([f"get_{which}", *of]))
        lines = self.ask(pipes, "\n".join(commands)).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    # --- calling ------------------------------------------------------------------------------------

    def ask(self, pipes: Path, *words: str, seconds: float | None = None) -> str:
        """Send one command to the daemon in a pipe directory and return what it said.

        Raises
        ------
        MPSNotInstalled, MPSUnreachable, MPSHangs
            If there is no program, no daemon, or no answer in time.
        """
        environment = self._environment(pipes, None)
        code, said = self._call([], " ".join(words) + "\n", environment, seconds or self._seconds)
        if code:
            raise MPSUnreachable(f"The MPS daemon in {pipes} does not answer: {_shown(said)}.")
        return said

    def _environment(self, pipes: Path, logs: Path | None) -> dict[str, str]:
        """Make the environment of one call: nothing of CUDA's in ours counts."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        ours["CUDA_MPS_PIPE_DIRECTORY"] = str(pipes)
        if logs is not None:
            ours["CUDA_MPS_LOG_DIRECTORY"] = str(logs)
        return ours

    def _call(
        self, options: list[str], commands: str, environment: dict[str, str], seconds: float
    ) -> tuple[int, str]:
        """Run the program; end it, and whatever it started, when it does not end in time."""
        program = shutil.which(self._program)
        if program is None:
            raise MPSNotInstalled(
                f"{self._program} is not installed here.", hint="Install it, or set mps_control to its path."
            )
        # A file and no pipe: a daemon may keep it open, and a pipe would be waited for.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(  # noqa: S603 - the administrator's program, no shell
                [program, *options],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            try:
                process.communicate(commands.encode(), timeout=seconds)
            except subprocess.TimeoutExpired:
                raise MPSHangs(
                    f"{PROGRAM} did not answer “{(commands or options[0]).strip()}” within {seconds:g} s.",
                    hint="Look into control.log in the daemon's log directory.",
                ) from None
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
            output.seek(0)
            return process.returncode, output.read().decode(errors="replace")


def _pids(answer: str) -> list[int]:
    """Read a list of processes, one a line."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if not all(line.isascii() and line.isdigit() for line in lines):
        raise MPSUnreadable(f"MPS listed as processes: {_shown(answer)}.")
    return [int(line) for line in lines]


def _shown(answer: str) -> str:
    """Quote what the program said, cut, and without what a terminal would obey."""
    text = " ".join("".join(each if each.isprintable() else " " for each in answer).split())
    return f"“{text[:_SHOWN_CHARACTERS]}”" if text else "nothing"
