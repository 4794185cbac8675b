"""The live line of a request that waits: in a terminal, in a notebook, or in a script's log.

Rules of this module: a line says the position, the reason in words and how long it has been; it never ends
without saying how the wait ended; whoever waits knows only `WaitingLine`.
"""

from __future__ import annotations

import html
import shutil
import sys
import uuid
from typing import Any, Protocol, TextIO

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.protocol.documents import LeaseDoc


class WaitingLine(Protocol):
    """Shows how a wait goes."""

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        """Show the state of the request; called about once a second."""

    def end(self, sentence: str) -> None:
        """Replace the line by how the wait ended; does nothing if nothing was shown."""


def describe(doc: LeaseDoc) -> str:
    """Say what a request waits for, without the time."""
    if doc.state is not LeaseState.QUEUED:
        return doc.reason.rstrip(".") or "granted; waiting for the agent"
    reason = doc.reason.rstrip(".") or "waiting for room"
    return f"{reason} (position {doc.position})" if doc.position is not None else reason


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class TerminalLine:
    """One line that is written over, for a terminal."""

    def __init__(self, stream: TextIO, *, columns: int | None = None) -> None:
        self._stream = stream
        self._columns = columns
        self._width = 0

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        """Write the line over the last one; a long reason is cut, since a line that wraps cannot be."""
        text, end = _capital(describe(doc)), f": {format_duration(elapsed_seconds)}. Ctrl-C cancels."
        room = (self._columns or shutil.get_terminal_size().columns) - len(end) - 1
        self._write((text if len(text) <= room else f"{text[: max(0, room - 1)]}…") + end)

    def end(self, sentence: str) -> None:
        """Write how it ended."""
        if self._width:
            self._write(sentence)
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


class PlainLines:
    """A new line whenever the position or the reason changes, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = ""

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        """Write a line if it says something new."""
        text = describe(doc)
        if text != self._last:
            self._last = text
            print(f"gpupool: {text}.", file=self._stream, flush=True)

    def end(self, sentence: str) -> None:
        """Write how it ended."""
        if self._last:
            print(f"gpupool: {sentence}", file=self._stream, flush=True)


class NotebookLine:
    """One output that is updated in place, for notebooks."""

    def __init__(self) -> None:
        self._display_id = ""
        self._shown = False

    def show(self, doc: LeaseDoc, elapsed_seconds: float) -> None:
        """Update the output."""
        text, elapsed = _capital(describe(doc)), format_duration(elapsed_seconds)
        self._update(
            f"{text}: {elapsed}. The stop button cancels.",
            f'<div role="status" aria-live="polite">{html.escape(text)} '
            f'<span aria-hidden="true">· {html.escape(elapsed)} · the stop button cancels</span></div>',
        )

    def end(self, sentence: str) -> None:
        """Update the output for the last time."""
        if self._display_id:  # perhaps not shown: an interrupt can come in between
            self._update(sentence, f'<div role="status" aria-live="polite">{html.escape(sentence)}</div>')

    def _update(self, text: str, markup: str) -> None:
        from IPython.display import display

        self._display_id = self._display_id or f"gpupool-{uuid.uuid4().hex}"
        data: dict[str, Any] = {"text/plain": text, "text/html": markup}
        display(data, raw=True, display_id=self._display_id, update=self._shown)
        self._shown = True


def waiting_line() -> WaitingLine:
    """Choose the line that this process's front end can show."""
    if hasattr(running_shell(), "kernel"):
        return NotebookLine()
    return TerminalLine(sys.stderr) if sys.stderr.isatty() else PlainLines(sys.stderr)
