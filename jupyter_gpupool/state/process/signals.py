"""What the user's own functions do at signals.

Rules of this module: only handlers that are functions or methods of the notebook are saved: others belong to
whoever set them in this process. Ctrl-C belongs to the kernel, which sets it anew for every cell.
"""

from __future__ import annotations

import signal
import threading
from types import FunctionType
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_NAME = "signals"


def _is_users(handler: Any) -> bool:
    function = getattr(handler, "__func__", handler)
    return isinstance(function, FunctionType) and function.__globals__.get("__name__") == "__main__"


def _take(tell: Tell) -> dict[str, Any]:
    found = {number: signal.getsignal(number) for number in signal.valid_signals() if number != signal.SIGINT}
    # signals of real time are numbers without a name
    return {getattr(number, "name", str(int(number))): it for number, it in found.items() if _is_users(it)}


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    for name, handler in value.items():
        path, number = f"signal.{name}", int(name) if name.isdigit() else getattr(signal, name, None)
        if number not in signal.valid_signals() or lost.is_lost(handler):
            changes.failed(path, "what was done at it cannot be put back here", "Set it again.")
        elif threading.current_thread() is not threading.main_thread():
            changes.failed(path, "signals can be set by the main thread only", "Set it again.")
        else:
            changes.make(path, _setting(number, handler), _setting(number, signal.getsignal(number)))
    return changes.undo


def _setting(number: int, handler: Any) -> Undo:
    def work() -> None:
        signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    return work


SECTION = Section(name=_NAME, take=_take, put=_put)
