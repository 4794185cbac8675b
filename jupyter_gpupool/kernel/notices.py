"""Sentences that the person at a notebook should read, though no cell asked for them.

Rules of this module: each is said once for as long as it holds; in a notebook it is a line in the output of
the cell that runs, and without one it waits for the next cell; elsewhere it goes to standard error at once.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_gpupool.kernel.nextcell import with_next_cell

#: A notice that went away and came back is said again only after this long, seconds.
AGAIN_SECONDS = 60.0
#: Two sentences that differ in numbers only are the same notice.
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class NoticeBoard:
    """Says sentences in the right place.

    Parameters
    ----------
    shell : InteractiveShell or None
        The notebook's shell; None in a script.
    running : bool
        True when a cell runs now.
    """

    def __init__(self, shell: Any = None, *, running: bool = False) -> None:
        self._shell = shell
        self._lock = threading.Lock()
        self._running = running
        self._waiting: list[str] = []
        self._open = False
        self._closing = False

    def open(self) -> None:
        """Follow the shell's cells from now on."""
        with self._lock:
            self._closing = False
            if self._shell is None or self._open:
                return
            self._open = True
        self._shell.events.register("pre_run_cell", self._cell_starts)
        self._shell.events.register("post_run_cell", self._cell_ends)

    def close(self) -> None:
        """Follow them no more, once everything was said."""
        with self._lock:
            self._closing = True
            if not self._open or self._waiting:
                return
            self._open = False
        self._shell.events.unregister("pre_run_cell", self._cell_starts)
        self._shell.events.unregister("post_run_cell", self._cell_ends)

    def say(self, sentence: str) -> None:
        """Say it in the cell that runs, or in the next one."""
        with self._lock:
            if self._open and not self._running:
                self._waiting.append(sentence)
                return
            tell(sentence)

    def _cell_starts(self, *_: object) -> None:
        with self._lock:
            self._running = True
            for sentence in self._waiting:
                tell(sentence)
            self._waiting.clear()

    def _cell_ends(self, *_: object) -> None:
        with self._lock:
            self._running = False
            closing = self._closing
        if closing:
            self.close()


def tell(sentence: str) -> None:
    """Write a line of ours to standard error; a stream that is closed takes nothing, and that is all."""
    try:
        print(f"gpupool: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - the place for it
    except (OSError, ValueError, AttributeError):
        return


def tell_with_first_cell(shell: Any, sentence: str) -> None:
    """Write a line of ours above a starting kernel's first cell: before that nobody listens."""
    with_next_cell(shell, lambda _: tell(sentence))


class SaidOnce:
    """Knows which of the notices of one lease are new.

    Parameters
    ----------
    already : iterable of str
        What was said already.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, already: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._present = {_kind(sentence) for sentence in already}
        self._gone: dict[str, float] = {}

    def new(self, notices: Iterable[str]) -> list[str]:
        """Return those that were not said yet, or not for a while; to be called with all that hold now."""
        now = self._clock()
        current = {_kind(sentence): sentence for sentence in notices}
        for kind in self._present - current.keys():
            self._gone[kind] = now
        fresh = [
            sentence
            for kind, sentence in current.items()
            if kind not in self._present and now - self._gone.get(kind, now - AGAIN_SECONDS) >= AGAIN_SECONDS
        ]
        self._present = set(current)
        return fresh


def _kind(sentence: str) -> str:
    return _NUMBER.sub("#", sentence)
