"""The one way in which launchers start processes: through ``enter.py``, with words of their own before it.

Rules of this module: nothing of the agent's environment, directory or descriptors reaches the process; what
is wanted goes through standard input, in memory; a launch that fails leaves nothing behind; its wait is
bounded. A process waits for our word before it becomes the program, so that it is written down until then;
an agent that dies before gives none, and the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.cluster.launchers import enter
from jupyter_gpupool.cluster.launchers.accounts import Account
from jupyter_gpupool.cluster.launchers.base import Keep, LaunchRecord, LaunchSpec
from jupyter_gpupool.cluster.launchers.errors import (
    AccountRefused,
    DirectoryRefused,
    LaunchError,
    ProgramNotFound,
)
from jupyter_gpupool.cluster.launchers.output import Output
from jupyter_gpupool.cluster.launchers.process import LaunchedProcess, SignalGroup, signal_group
from jupyter_gpupool.cluster.peer import find

#: How long it may take until the process runs, seconds: machines are busy, and PAM may ask others.
LAUNCH_SECONDS = 30.0
#: Where programs are looked for that have no ``PATH`` of their own.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What becomes the process; sudoers files name these words.
ENTER = (sys.executable, "-I", "-S", "-B", enter.__file__)
#: The environment until it does.
ENVIRONMENT = {"PATH": DEFAULT_PATH, "LC_ALL": "C.UTF-8"}
#: Longest answer of ``enter.py``, bytes.
MOST_ANSWER = 16384

_REFUSALS: dict[str, type[LaunchError]] = {
    "account": AccountRefused,
    "directory": DirectoryRefused,
    "program": ProgramNotFound,
}
_HINTS = {
    "account": "The administrator of the node can mend it.",
    "directory": "Name another directory, or make it on the node.",
    "program": "Install it on the node, or name one that is there.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How processes of one account are started.

    Attributes
    ----------
    account : Account
        As whom.
    prefix : tuple of str
        What is put before the interpreter; empty to start it directly.
    drop : bool
        True when the process itself gives up its privileges.
    send : callable
        How its group is signalled.
    """

    account: Account
    prefix: tuple[str, ...] = ()
    drop: bool = False
    send: SignalGroup = signal_group


async def launch(
    spec: LaunchSpec, way: Way, directory: Path, node: str, keep: Keep | None = None
) -> LaunchedProcess:
    """Start a process.

    Parameters
    ----------
    spec : LaunchSpec
        What is wanted; its environment is given on as it is.
    way : Way
        How.
    directory : Path
        Private, for its output.
    node : str
        Name of this node, for people.
    keep : callable, optional
        Writes the record down, before the process becomes the program.

    Raises
    ------
    LaunchError
        If it cannot be started.
    """
    _check_words(spec)
    name = uuid.uuid4().hex
    output = Output(directory, name)

    def kept(mark: ProcessMark) -> LaunchRecord:
        record = LaunchRecord(name=name, owner=spec.owner, account=way.account.name, process=mark)
        if keep is not None:
            keep(record)
        return record

    try:
        front, record = await _start(spec, way, output, node, kept)
    except BaseException:
        output.remove()
        raise
    pidfd = find(record.process)
    if pidfd is None:  # it has ended already: its parent, or what started it, stands for it
        pidfd = os.pidfd_open(front.pid)
    return LaunchedProcess(record, pidfd, front, output, way.send)


def adopt(record: LaunchRecord, directory: Path, send: SignalGroup = signal_group) -> LaunchedProcess | None:
    """Take over a process that lives; remove the output of one that does not."""
    output = Output(directory, record.name)
    pidfd = find(record.process)
    if pidfd is None:
        output.remove()
        return None
    return LaunchedProcess(record, pidfd, None, output, send)


def _check_words(spec: LaunchSpec) -> None:
    """Refuse what no process can be given.

    Raises
    ------
    ProgramNotFound
        If there is no program.
    LaunchError
        If a word has a zero byte, or a variable no proper name.
    """
    if not spec.argv or not spec.argv[0]:
        raise ProgramNotFound("No program was named.", hint="Name one.")
    words = [*spec.argv, *spec.env, *spec.env.values(), spec.cwd]
    if any("\0" in word for word in words) or any(not name or "=" in name for name in spec.env):
        raise LaunchError("An argument or a variable of the process cannot be given to any process.")


async def _start(
    spec: LaunchSpec, way: Way, output: Output, node: str, kept: Callable[[ProcessMark], LaunchRecord]
) -> tuple[subprocess.Popen[bytes], LaunchRecord]:
    """Start it, hear which process it is, have that written down, and let it become the program."""
    ours, theirs = socket.socketpair()
    with ours:
        try:
            with theirs:
                front = _spawn(spec, way, output, theirs.fileno())
        except OSError as error:
            raise LaunchError(f"No process can be started on node {node}: {error.strerror}.") from error
        try:
            ours.setblocking(False)
            record = kept(_mark(await _answer(ours), output, node))
            with contextlib.suppress(OSError):  # one that is gone by now is told of as it ended
                ours.send(enter.GO)
            return front, record
        except BaseException:
            ours.close()
            await asyncio.to_thread(_give_up, front)
            raise


def _spawn(spec: LaunchSpec, way: Way, output: Output, told: int) -> subprocess.Popen[bytes]:
    order = os.memfd_create("order", os.MFD_CLOEXEC)
    errors = output.create()
    try:
        _write_all(order, _frame(spec, way))
        return subprocess.Popen(  # noqa: S603 - as the account that the administrator named
            [*way.prefix, *ENTER],
            stdin=order,
            stdout=told,
            stderr=errors,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    finally:
        os.close(order)
        os.close(errors)


def _frame(spec: LaunchSpec, way: Way) -> bytes:
    """Put order and input together."""
    account = way.account
    order = {
        "uid": account.uid,
        "gid": account.gid,
        "groups": list(account.groups),
        "drop": way.drop,
        "argv": list(spec.argv),
        "env": {"PATH": DEFAULT_PATH} | dict(spec.env) | account.environment,
        "cwd": spec.cwd,
        "home": account.home,
    }
    return enter.written(order, spec.stdin)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)


async def _answer(ours: socket.socket) -> dict[str, Any] | None:
    """Read the one line; None when there is none in time, or at all."""
    line, loop = bytearray(), asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LAUNCH_SECONDS):
            while not line.endswith(b"\n") and len(line) <= MOST_ANSWER:
                part = await loop.sock_recv(ours, MOST_ANSWER)
                if not part:
                    return None
                line += part
    except (TimeoutError, OSError):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _mark(answer: dict[str, Any] | None, output: Output, node: str) -> ProcessMark:
    """Read which process it is.

    Raises
    ------
    LaunchError
        If it was refused, or said nothing.
    """
    if answer is None:
        words = output.last_words() or "it said nothing"
        raise LaunchError(f"No process was started on node {node}: {words}")
    kind, text = answer.get("kind"), answer.get("text")
    if kind is not None:
        failure = _REFUSALS.get(str(kind), LaunchError)
        raise failure(f"No process can be started on node {node}: {text}", hint=_HINTS.get(str(kind), ""))
    return ProcessMark(pid=int(answer["pid"]), start_ticks=int(answer["start_ticks"]))


def _give_up(front: subprocess.Popen[bytes]) -> None:
    """End what was started and did not become a process; it is waited for."""
    if front.poll() is None:
        front.kill()
    front.wait()
