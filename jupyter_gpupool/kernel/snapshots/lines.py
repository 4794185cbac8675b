"""The lines on which saving and restoring show how far they are.

Rule of this module: it is imported when there is something to show, and not before.
"""

from __future__ import annotations

import html
import sys
from typing import Protocol

from jupyter_gpupool.kernel.progress import NotebookLine, TerminalLine
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.kernel.snapshots.meter import Nowhere


class Line(Protocol):
    """One line that is written over."""

    def put(self, text: str) -> None:
        """Show a text in place of the last one."""

    def close(self) -> None:
        """Take the line away."""


class _InTerminal(TerminalLine):
    def put(self, text: str) -> None:
        self._write(f"{text}. Ctrl-C stops it.")

    def close(self) -> None:
        if self._width:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()


class _InNotebook(NotebookLine):
    def put(self, text: str) -> None:
        shown = html.escape(text)
        self._update(
            f"{text}. The stop button stops it.",
            f'<div role="status" aria-live="off">{shown} · the stop button stops it</div>',
        )

    def close(self) -> None:
        if self._display_id:
            self._update("", "")


def line_here() -> Line:
    """Choose the line that this process's front end can show."""
    if hasattr(running_shell(), "kernel"):
        return _InNotebook()
    return _InTerminal(sys.stderr) if sys.stderr.isatty() else Nowhere()
