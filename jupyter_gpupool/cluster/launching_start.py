"""The small program that a process of an owner begins as: it writes its files, and becomes the process.

It is run as ``python -I -S launching_start.py`` through a launcher, as the owner's account, and reads its
order from standard input: eight bytes of length, then JSON; what follows is left there for the program.
Rules of this module: the standard library only; what it writes is in a new directory that only this account
can enter; what keeps it from becoming the process is one line of its output, which names the node.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

#: Exit statuses, as shells have them: the program cannot be run; there is none.
CANNOT_RUN, NOT_FOUND = 126, 127
#: Bytes that hold the length of the order.
LENGTH_BYTES = 8


def main() -> int:
    """Become the process; returns only when that is impossible."""
    order = _order()
    node, argv = order["node"], order["argv"]
    _enter(order["cwd"], node)
    try:
        _write(order["directory"], order["files"])
    except OSError as error:
        sys.stderr.write(f"{order['directory']} cannot be written on node {node}: {error.strerror}.\n")
        return CANNOT_RUN
    program = shutil.which(argv[0])
    if program is None:
        sys.stderr.write(f"{argv[0]} was not found on node {node}, or may not be run there.\n")
        return NOT_FOUND
    sys.stderr.flush()
    try:
        os.execv(program, argv)  # noqa: S606 - that is what it is for
    except OSError as error:
        sys.stderr.write(f"{program} cannot be run on node {node}: {error.strerror}.\n")
        return CANNOT_RUN


def _order() -> dict[str, Any]:
    order: dict[str, Any] = json.loads(_read(int.from_bytes(_read(LENGTH_BYTES), "big")))
    return order


def _read(size: int) -> bytes:
    """Read exactly so much: the rest is the program's."""
    parts = bytearray()
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            raise EOFError("the order is cut off")
        parts += part
    return bytes(parts)


def _enter(cwd: str, node: str) -> None:
    """Go to the directory that was asked for, as far as it is here."""
    if not cwd:
        return
    try:
        os.chdir(cwd)
    except OSError as error:
        sys.stderr.write(f"{cwd} cannot be entered on node {node} ({error.strerror}): it starts at home.\n")


def _write(directory: str, files: dict[str, str]) -> None:
    """Write files that nobody else can read."""
    if not files:
        return
    Path(directory).mkdir(0o700)  # fails where anything is there already, also a link
    for name, text in files.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(f"{directory}/{name}", flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
