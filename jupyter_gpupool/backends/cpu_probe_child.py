"""A process that exceeds limits of the CPU and of main memory as it is told on stdin.

Rules of this module: it is run as a file (`jupyter_gpupool.backends.hand`) and imports only the standard
library. One JSON object a line comes in (``do`` names the command), one line of answer goes out.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_held: list[mmap.mmap] = []


def take(**arguments: Any) -> dict[str, Any]:
    """Take ``bytes`` of memory and write to all of it; ``refused`` says why not, "" when it worked."""
    size = arguments["bytes"]
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        return {"refused": error.strerror}
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    _held.append(memory)
    return {"refused": ""}


def give_back(**_: Any) -> dict[str, Any]:
    """Give all memory back."""
    while _held:
        _held.pop().close()
    return {}


def spin(processes: int, seconds: float, **_: Any) -> dict[str, Any]:
    """Compute in several processes at once; say how much processor time they got, and how long it took."""
    before, began = os.times(), time.monotonic()
    children = [_spinner(seconds) for _number in range(processes)]
    for child in children:
        os.waitpid(child, 0)
    after = os.times()
    used = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    return {"used_seconds": used, "took_seconds": time.monotonic() - began}


def _spinner(seconds: float) -> int:
    child = os.fork()
    if child:
        return child
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    os._exit(0)


def ready(**_: Any) -> dict[str, Any]:
    """Say that it runs."""
    return {}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "take": take,
    "give_back": give_back,
    "spin": spin,
    "ready": ready,
}


def main() -> None:
    """Answer commands until stdin ends."""
    for line in sys.stdin:
        command = json.loads(line)
        answer = _COMMANDS[command.pop("do")](**command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
