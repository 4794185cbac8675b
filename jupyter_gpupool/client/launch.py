"""Starts one process that is nobody's child: run as a script, with the log and the command as arguments.

Rules of this file: it imports nothing of ours (it runs with ``-I -S``, which is quick), and ends at once.
"""

from __future__ import annotations

import os
import sys

#: A log longer than this is put aside before a new start, bytes.
_LOG_BYTES = 1_000_000


def main(log: str, command: list[str]) -> None:
    """Fork; the child becomes ``command``, with its output in ``log``, the parent ends."""
    if os.path.exists(log) and os.path.getsize(log) > _LOG_BYTES:  # noqa: PTH110, PTH202 - kept small
        os.replace(log, log + ".1")  # noqa: PTH105
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.fork()
    if pid:
        with open(os.path.splitext(log)[0] + ".pid", "w") as file:  # noqa: PTH122, PTH123
            file.write(str(pid))
        return
    os.setsid()  # by this, too, an agent tells it from the processes of the kernel that started it
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.execv(command[0], command)  # noqa: S606 - our own command


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
