"""A holder: a plain Python process that shows tickets when it is told to.

It reads commands from stdin, one JSON object a line, and answers each with one line: ``attach`` shows a
ticket on a socket and answers with what the agent said, ``limits`` with its limits, ``thread`` starts a
thread, ``spawn`` a child, ``exit`` ends it. It imports nothing of ours, so that it is small and starts fast.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from typing import Any


def attach(path: str, ticket: str, uid: int | None = None, **_: Any) -> str:
    """Show a ticket, as another user if one is given."""
    if uid is not None:
        os.setgroups([])
        os.setuid(uid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(15)
        try:
            stream.connect(path)
        except OSError as error:
            return json.dumps({"refused": error.strerror})
        stream.sendall(json.dumps({"ticket": ticket, "format": 1}).encode() + b"\n")
        with stream.makefile("rb") as lines:
            return lines.readline().decode()


def limits(**_: Any) -> str:
    """Say which limits this process has."""
    cores = sorted(os.sched_getaffinity(0))
    return json.dumps({"data": resource.getrlimit(resource.RLIMIT_DATA)[0], "cores": cores})


def spawn(**_: Any) -> str:
    """Start a child that outlives this process."""
    child = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    return json.dumps({"pid": child.pid})


def thread(**_: Any) -> str:
    """Start a thread that waits."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return json.dumps({"threads": threading.active_count()})


def main() -> None:
    """Answer commands until told to exit."""
    commands = {"attach": attach, "limits": limits, "spawn": spawn, "thread": thread}
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        if name == "exit":
            os._exit(0)
        print(commands[name](**command).strip(), flush=True)


if __name__ == "__main__":
    main()
