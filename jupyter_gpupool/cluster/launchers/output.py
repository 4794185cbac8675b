"""The output of a process that an agent started: its last words.

Rule of this module: a file in a private directory, so that neither the end of an agent nor a full pipe ends
or stops the process; it never grows beyond a bound for as long as an agent looks.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from jupyter_gpupool.core.errors import InvalidValue

#: How much of the output is looked at for the last words, bytes.
TAIL_BYTES = 4096
#: From what size on the file is emptied, bytes.
MOST_BYTES = 4 * 1024 * 1024
#: Longest last words that are told, characters.
MOST_WORDS = 500

_NAME = re.compile(r"[a-z0-9]{1,64}")


class Output:
    """The file of one launch.

    Parameters
    ----------
    directory : Path
        A private directory.
    name : str
        Name of the launch.
    """

    def __init__(self, directory: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidValue(f"“{name[:64]}” is not the name of a launch.")
        self._path = directory / f"{name}.out"

    def create(self) -> int:
        """Make the file, and return a descriptor that appends to it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)

    def last_words(self) -> str:
        """Return the last line that is not blank; empty when there is none."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL_BYTES))
                tail = file.read(TAIL_BYTES)
        except OSError:
            return ""
        lines = [line.strip() for line in tail.decode(errors="replace").splitlines()]
        return next((line[:MOST_WORDS] for line in reversed(lines) if line), "")

    def trim(self) -> None:
        """Empty the file where it has grown too large: whoever appends to it goes on at its beginning."""
        with contextlib.suppress(OSError):
            if self._path.stat().st_size > MOST_BYTES:
                os.truncate(self._path, 0)

    def remove(self) -> None:
        """Remove the file; nothing happens when there is none."""
        self._path.unlink(missing_ok=True)
