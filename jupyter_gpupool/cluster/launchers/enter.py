"""The small process that becomes the process that was asked for.

It is run as ``python -I -S enter.py`` by every launcher, with an environment and a directory of the agent's
choosing, and reads its order on standard input. Rules of this module: groups, gid and uid are given up before
any path, variable or argument of a user is used, and it makes sure that they cannot be had back; it imports
the standard library only, all of it before; what it has to tell is one line on standard output. There it
also waits for the agent's word, and ends where none comes: then nobody would know of the program.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from pathlib import Path
from typing import Any

#: Exit statuses, as shells have them: the program cannot be run; it could not be come to.
CANNOT_RUN, REFUSED = 126, 125
#: The agent's word: the process is written down, and may become the program.
GO = b"\n"
#: Bytes that hold the length of the order, which comes first; what follows it is for the program.
LENGTH_BYTES = 8


class Refusal(Exception):
    """Raised when the process cannot be started: a kind for programs, and a sentence."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def main() -> int:
    """Become another process; returns only when that is impossible."""
    tell = os.dup(1)  # ends with the exec
    os.dup2(2, 1)
    order, rest = read_order()
    try:
        give_up_privileges(order)
        if "signal" in order:
            return _signal(order["group"], order["signal"])
        _stand_alone()
        _enter(order["cwd"], order["home"])
        program = _find(order["argv"][0], order["env"])
    except Refusal as error:
        _say(tell, {"kind": error.kind, "text": str(error)})
        return REFUSED
    _give_input(rest)
    _say(tell, {"pid": os.getpid(), "start_ticks": _start_ticks()})
    if not _may_go(tell):
        return REFUSED
    try:
        os.execve(program, order["argv"], order["env"])  # noqa: S606 - that is what it is for
    except OSError as error:
        sys.stderr.write(f"{program} cannot be run: {error.strerror}\n")
        return CANNOT_RUN


def _may_go(handle: int) -> bool:
    """Wait for the agent's word; without one where what started this process passes on one way only."""
    if not stat.S_ISSOCK(os.fstat(handle).st_mode):
        return True
    try:
        return os.read(handle, len(GO)) == GO
    except OSError:
        return False


def _signal(group: int, number: int) -> int:
    """Signal a group of this account's, and nobody else's."""
    try:
        os.killpg(group, number)
    except OSError as error:
        sys.stderr.write(f"Group {group} cannot be signalled: {error.strerror}\n")
        return REFUSED
    return 0


def written(order: dict[str, Any], rest: bytes = b"") -> bytes:
    """Put an order and what the program is to read together, as `read_order` takes them apart."""
    data = json.dumps(order).encode()
    return len(data).to_bytes(LENGTH_BYTES, "big") + data + rest


def read_order() -> tuple[dict[str, Any], bytes]:
    """Read the order, and what the program is to read."""
    with open(0, "rb", closefd=False) as stream:
        data = stream.read()
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
    return json.loads(data[LENGTH_BYTES:end]), data[end:]


def give_up_privileges(order: dict[str, Any]) -> None:
    """Become the account: groups, then gid, then uid, for good."""
    uid, gid = order["uid"], order["gid"]
    if order["drop"]:
        try:
            os.setgroups(order["groups"])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise Refusal("account", f"Privileges cannot be given up ({error.strerror}).") from error
    if os.getresuid() != (uid, uid, uid):
        raise Refusal("account", f"It would run as uid {os.geteuid()}, and not as uid {uid}.")
    if uid and _can_become_root():
        raise Refusal("account", "It could have become root again.")


def _can_become_root() -> bool:
    try:
        os.setuid(0)
    except OSError:
        return False
    return True


def _stand_alone() -> None:
    """Have a session of its own, signals as new processes have them, and files that are the account's own."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)


def _enter(directory: str, home: str) -> None:
    """Go to a directory; without one to the home, or to the root directory where that is not to be had."""
    if directory:
        try:
            os.chdir(directory)
        except OSError as error:
            raise Refusal("directory", f"{directory} cannot be entered ({error.strerror}).") from error
        return
    try:
        os.chdir(home or "/")
    except OSError:
        os.chdir("/")


def _find(name: str, environment: dict[str, str]) -> str:
    """Find the program, as this account."""
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None:
        raise Refusal("program", f"{name} was not found, or may not be run.")
    return found


def _give_input(rest: bytes) -> None:
    """Let the program read what is for it, and then the end of its input."""
    handle = os.memfd_create("stdin")
    view = memoryview(rest)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    os.dup2(handle, 0)


def _start_ticks() -> int:
    """Return when this process started, clock ticks since boot."""
    with Path("/proc/self/stat").open("rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _say(handle: int, told: dict[str, Any]) -> None:
    os.write(handle, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
