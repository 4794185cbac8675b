"""The one door to ``nvidia-cuda-mps-control``.

Rules of this module: every call is bounded in time and goes through no shell; its environment is made for it,
so that two daemons never mix; an answer is parsed or refused, and a setting counts only as far as it reads
back (the program exits with 0 also for a command that it rejects).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from jupyter_gpupool.backends.nvidia.mps import answers
from jupyter_gpupool.backends.nvidia.mps.errors import MPSHangs, MPSNotInstalled, MPSUnreachable

#: What the program is called.
PROGRAM = "nvidia-cuda-mps-control"
#: How long one call may take, seconds.
CALL_SECONDS = 3.0
#: How long a daemon may take until it listens, seconds.
START_SECONDS = 5.0


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
            raise MPSUnreachable(f"The MPS control daemon did not start: {answers.shown(said)}.")
        self.servers(pipes)

    def quit(self, pipes: Path, *, wait_seconds: int) -> None:
        """Let a daemon end with its servers, clients or not, after so many seconds at most."""
        self.ask(pipes, ("quit", "-t", str(wait_seconds)), seconds=self._seconds + wait_seconds)

    # --- servers ------------------------------------------------------------------------------------

    def servers(self, pipes: Path) -> list[int]:
        """List the servers' processes."""
        return answers.pids(answers.lines(self.ask(pipes, ("get_server_list",))))

    def state(self, pipes: Path, server: int, uuid: str) -> answers.ServerState:
        """Look at a server, in one call."""
        of = str(server)
        answer = self.ask(
            pipes,
            ("get_server_status", of),
            ("get_active_thread_percentage", of),
            ("get_device_pinned_mem_limit", of, uuid),
            ("get_client_list", of),
        )
        return answers.state(answer, server)

    def shut_down(self, pipes: Path, server: int) -> None:
        """Let a server end as soon as it has no clients."""
        self.ask(pipes, ("shutdown_server", str(server)))

    def clients(self, pipes: Path, server: int) -> list[int]:
        """List the processes that are clients of a server."""
        return answers.pids(answers.lines(self.ask(pipes, ("get_client_list", str(server)))))

    def terminate(self, pipes: Path, server: int, client: int) -> None:
        """Take a client's work off the device, so that it can be signalled without harm to the others."""
        self.ask(pipes, ("terminate_client", str(server), str(client)))

    # --- limits -------------------------------------------------------------------------------------

    def next_limits(self, pipes: Path, uuid: str) -> tuple[float, int | None]:
        """Read what clients of the next server may use at most: percent of the threads, and MiB or None."""
        percentage = answers.lines(self.ask(pipes, ("get_default_active_thread_percentage",)))
        memory = answers.lines(self.ask(pipes, ("get_default_device_pinned_mem_limit", uuid)))
        return answers.percentage(" ".join(percentage[-1:])), answers.mib(memory[-1]) if memory else None

    def limit(
        self, pipes: Path, server: int | None, uuid: str, *, percentage: float, memory_mib: int
    ) -> tuple[float, int | None]:
        """Set what clients may use at most, and read it back, in one call.

        Parameters
        ----------
        pipes : Path
            The daemon's directory.
        server : int or None
            A server, for the clients that it gets from now on; None for the next server.
        uuid : str
            The GPU.
        percentage : float
            Percent of the threads.
        memory_mib : int
            MiB of the GPU's memory.
        """
        which, of = ("default_", []) if server is None else ("", [str(server)])
        threads, memory = f"{which}active_thread_percentage", f"{which}device_pinned_mem_limit"
        answer = self.ask(
            pipes,
            (f"set_{threads}", *of, f"{percentage:g}"),
            (f"set_{memory}", *of, uuid, f"{memory_mib}M"),
            (f"get_{threads}", *of),
            (f"get_{memory}", *of, uuid),
        )
        return answers.limits(answer)

    # --- calling ------------------------------------------------------------------------------------

    def ask(self, pipes: Path, *commands: tuple[str, ...], seconds: float | None = None) -> str:
        """Send commands to the daemon in a pipe directory, in one call, and return what it said.

        Raises
        ------
        MPSNotInstalled, MPSUnreachable, MPSHangs
            If there is no program, no daemon, or no answer in time.
        """
        environment = self._environment(pipes, None)
        lines = "".join(" ".join(words) + "\n" for words in commands)
        code, said = self._call([], lines, environment, seconds or self._seconds)
        if code:
            raise MPSUnreachable(f"The MPS daemon in {pipes} does not answer: {answers.shown(said)}.")
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
