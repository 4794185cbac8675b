"""A real kernel, driven as a front end drives it.

Rule of this module: every wait is bounded; what came out is kept in full, so that a failure shows it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_PATIENCE_SECONDS = 60.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Cell:
    """What one execution brought.

    Attributes
    ----------
    status : str
        ``ok`` or ``error``.
    displays : list of dict
        Bundles of displayed values and results, updates in place included (last state).
    updates : int
        How often a display was updated.
    """

    status: str = ""
    stdout: str = ""
    stderr: str = ""
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: int = 0

    @property
    def text(self) -> str:
        """Everything a person would read."""
        shown = [bundle.get("text/plain", "") for bundle in self.displays]
        return "\n".join([self.stdout, self.stderr, *shown, self.traceback])

    @property
    def result(self) -> str:
        """The plain text of the last thing displayed."""
        assert self.displays, self.text
        return str(self.displays[-1]["text/plain"])


class Talk:
    """One client of a kernel."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client

    def send(self, code: str) -> str:
        """Begin a cell; return its message's id."""
        return self.client.execute(code, allow_stdin=False)

    def finish(
        self,
        sent: str,
        *,
        on_output: Callable[[Cell], None] | None = None,
        seconds: float = _PATIENCE_SECONDS,
    ) -> Cell:
        """Wait for the end of a cell; ``on_output`` is called after each output."""
        cell, handles = Cell(), {}
        deadline = time.monotonic() + seconds
        while True:
            message = self._next(deadline, cell)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            _note(cell, handles, message)
            if on_output is not None:
                on_output(cell)
        cell.status = self._reply(sent, deadline)["content"]["status"]
        return cell

    def _next(self, deadline: float, cell: Cell) -> dict[str, Any]:
        try:
            return self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
        except Empty:
            raise AssertionError(f"the cell did not end; it showed: {cell}") from None

    def _reply(self, sent: str, deadline: float) -> dict[str, Any]:
        while True:
            reply: dict[str, Any] = self.client.get_shell_msg(timeout=max(1.0, deadline - time.monotonic()))
            if reply["parent_header"].get("msg_id") == sent:
                return reply

    def run(self, code: str, *, seconds: float = _PATIENCE_SECONDS) -> Cell:
        """Run a cell and return what it brought."""
        return self.finish(self.send(code), seconds=seconds)

    def ok(self, code: str, *, seconds: float = _PATIENCE_SECONDS) -> Cell:
        """Run a cell that must not fail."""
        cell = self.run(code, seconds=seconds)
        assert cell.status == "ok", cell.text
        return cell

    def complete(self, code: str) -> list[str]:
        """Press Tab at the end of ``code``."""
        sent = self.client.complete(code)
        reply = self._reply(sent, time.monotonic() + _PATIENCE_SECONDS)
        matches: list[str] = reply["content"]["matches"]
        return matches


class Notebook(Talk):
    """One kernel and one client of it."""

    def __init__(self, environment: Mapping[str, str], *, extension: bool = True) -> None:
        self.manager = KernelManager(kernel_name="python3")
        arguments = ["--ext=jupyter_gpupool"] if extension else []
        self.manager.start_kernel(env=dict(environment), extra_arguments=arguments)
        super().__init__(self.manager.client())
        self.client.start_channels()
        self.client.wait_for_ready(timeout=_PATIENCE_SECONDS)
        self.first = self.run("import os; (os.getpid(), sorted(os.environ))")
        self.pid = int(self.first.result.split(",")[0].strip("("))

    def interrupt(self) -> None:
        """Press the stop button."""
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        """Restart the kernel, as the button does; ready for its first cell when this returns."""
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready(timeout=_PATIENCE_SECONDS)

    def close(self) -> None:
        """Shut the kernel down."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def _note(cell: Cell, handles: dict[str, int], message: dict[str, Any]) -> None:
    """Take one output down."""
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            setattr(cell, content["name"], getattr(cell, content["name"]) + content["text"])
        case "execute_result" | "display_data":
            if name := content.get("transient", {}).get("display_id"):
                handles[name] = len(cell.displays)
            cell.displays.append(content["data"])
        case "update_display_data":
            cell.updates += 1
            cell.displays[handles[content["transient"]["display_id"]]] = content["data"]
        case "error":
            cell.ename, cell.evalue = content["ename"], content["evalue"]
            cell.traceback = _COLOURS.sub("", "\n".join(content["traceback"]))


@contextmanager
def notebook(environment: Mapping[str, str], *, extension: bool = True) -> Iterator[Notebook]:
    """Run a kernel for the length of a ``with`` block."""
    opened = Notebook(environment, extension=extension)
    try:
        yield opened
    finally:
        opened.close()
