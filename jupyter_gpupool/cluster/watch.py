"""Watching processes end: one pidfd each, on the loop.

Rule of this module: an exit is told once, and only for a process that is still watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ProcessWatch:
    """Tells when processes end.

    Parameters
    ----------
    on_exit : callable
        Called with the key under which the process was watched.
    enabled : bool
        False to watch nothing, so that the other nets can be tried alone.
    """

    def __init__(self, on_exit: Callable[[str], None], *, enabled: bool = True) -> None:
        self._on_exit = on_exit
        self._enabled = enabled
        self._watched: dict[str, int] = {}

    def add(self, key: str, pidfd: int) -> None:
        """Watch a process; one that has ended already is told at the loop's next turn."""
        if not self._enabled:
            return
        self._watched[key] = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._ended, key)

    def remove(self, key: str) -> None:
        """Stop watching, before the pidfd is closed; nothing happens if it is not watched."""
        pidfd = self._watched.pop(key, None)
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)

    def _ended(self, key: str) -> None:
        self.remove(key)
        self._on_exit(key)
