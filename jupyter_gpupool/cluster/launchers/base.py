"""How an agent starts a process on its node for an owner.

Rules of this module: what is to be started is a frozen value; its standard input may hold secrets, so it is
never shown, and neither arguments nor environment carry any; a process has its own session and outlives the
agent, and the next agent finds it by pid and start time, never by pid alone.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.protocol import names

#: How long a process may take to end after SIGTERM, seconds.
TERM_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchSpec:
    """A process that is wanted.

    Attributes
    ----------
    owner : str
        The authenticated owner for whom it is; the launcher finds the account.
    argv : tuple of str
        The program and its arguments: no secrets. A name without a slash is looked for on the ``PATH`` of
        ``env``, by the process itself, as the owner's account.
    env : mapping
        Variables that are wanted: no secrets. Those that the node's rules do not allow are left out, and
        ``HOME``, ``USER``, ``LOGNAME`` and ``SHELL`` are the account's. Nothing is inherited of the agent.
    cwd : str
        Where it starts; empty for the account's home (the root directory where it has none).
    stdin : bytes
        What it reads on its standard input, which ends after it; secrets belong here.
    """

    owner: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    stdin: bytes = field(default=b"", repr=False)


class LaunchRecord(msgspec.Struct, kw_only=True, frozen=True):
    """All that the next agent needs to take a process over; written to disk by whoever launches."""

    #: Of this structure; `jupyter_gpupool.protocol.names.FORMAT`.
    format: int = names.FORMAT
    #: Name of this launch, new each time; the file of its output has it.
    name: str
    owner: str
    #: The OS user that it runs as.
    account: str
    #: The process itself, whatever started it.
    process: ProcessMark


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a process ended.

    Attributes
    ----------
    status : int or None
        Its exit status; None when a signal ended it, or when it is not known: an earlier agent started it.
    signal : int or None
        The signal that ended it, where one did and that is known.
    last_words : str
        The last line that it wrote; empty when there is none.
    """

    status: int | None
    signal: int | None
    last_words: str

    def __str__(self) -> str:
        """Say it as a sentence."""
        if self.signal is not None:
            how = f"It was ended by {_signal_name(self.signal)}"
        elif self.status is None:
            how = "It ended; how is not known, since its agent was started anew meanwhile"
        else:
            how = f"It ended with status {self.status}"
        return f"{how}: {self.last_words}" if self.last_words else f"{how}."


#: Writes down which process it is, before that becomes the program that is wanted.
Keep = Callable[[LaunchRecord], None]


class Launched(Protocol):
    """A process that was started, or taken over."""

    @property
    def record(self) -> LaunchRecord:
        """What the next agent needs."""

    @property
    def pid(self) -> int:
        """Its number; also that of its session and process group."""

    async def wait(self) -> Exit:
        """Wait for its end; any number of callers may, and a call that is cancelled ends nothing."""

    async def signal(self, number: int) -> None:
        """Send a signal to it and to what it started in its group; nothing when it has ended."""

    async def end(self, *, seconds: float = TERM_SECONDS) -> Exit:
        """End it and what it started in its group: asked first, after ``seconds`` made to."""

    def last_words(self) -> str:
        """Return the last line that it has written so far; empty when there is none."""

    def close(self) -> None:
        """Let go of it, and forget its output if it has ended. One that runs is left alone."""

    def release(self) -> None:
        """Let go of it, and leave process and output to the next agent."""


class Launcher(Protocol):
    """Starts processes in one way."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    def check(self) -> None:
        """Find out whether it can work on this node at all.

        Raises
        ------
        LauncherUnusable
            If it cannot. The message says what is missing.
        """

    def account(self, owner: str) -> str:
        """Return the name of the OS user that processes of ``owner`` run as.

        Raises
        ------
        AccountRefused
            If there is none. The message says why, and who can change it.
        """

    async def launch(self, spec: LaunchSpec, keep: Keep | None = None) -> Launched:
        """Start a process; it runs when this returns, under its own pid and as the owner's account.

        ``keep`` is called before it becomes the program; an agent that dies until then, or a ``keep`` that
        raises, leaves no process.

        Raises
        ------
        LaunchError
            If it cannot be started; nothing runs then.
        """

    async def adopt(self, record: LaunchRecord) -> Launched | None:
        """Take over a process of an earlier agent; None when it has ended. Its output is removed then."""


def _signal_name(number: int) -> str:
    """Return the name of a signal, as people know it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
