"""Processes for the contract tests to put under limits: they do as they are told, line by line.

Rule of this module: nothing sleeps; a line goes in, a line comes out, and every read has a deadline.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.procfs import ProcFS

T = TypeVar("T")
MIB = 2**20

#: Runs each line that comes in, and answers with ``answer``, or with the name of the error.
_OBEDIENT = """
import os, signal, sys, threading, mmap, subprocess
names = {}
def serve(source, sink):
    for line in source:
        names["answer"] = "done"
        try:
            exec(line, globals())
        except MemoryError:
            names["answer"] = "MemoryError"
        except BaseException as error:
            names["answer"] = type(error).__name__ + ": " + str(error)
        else:
            names["answer"] = str(globals().pop("answer", "done"))
        sink.write(names["answer"] + "\\n")
        sink.flush()
def fork_child():
    down, up = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(down[1]); os.close(up[0])
        serve(os.fdopen(down[0]), os.fdopen(up[1], "w"))
        os._exit(0)
    os.close(down[0]); os.close(up[1])
    return pid, os.fdopen(down[1], "w"), os.fdopen(up[0])
def fork_idler():
    pid = os.fork()
    while pid == 0:
        signal.pause()
    return pid
def ask(child, line):
    child[1].write(line + "\\n"); child[1].flush()
    return child[2].readline().strip()
def hold(size):
    block = bytearray(size)
    block[::4096] = b"x" * len(block[::4096])
    return block
def start_thread():
    ready, box = threading.Event(), []
    def run():
        box.append(threading.get_native_id())
        ready.set()
        threading.Event().wait()
    threading.Thread(target=run, daemon=True).start()
    ready.wait()
    return box[0]
serve(sys.stdin, sys.stdout)
os._exit(0)
"""


def marked(pid: int) -> ProcessMark:
    """Return a living process's name for life."""
    stat = ProcFS().stat(pid)
    assert stat is not None, f"process {pid} is gone"
    return stat.mark


def poll(look: Callable[[], T | None], what: str, seconds: float = 10.0) -> T:
    """Look until something is seen; fail with ``what`` when it is not in time."""
    deadline = time.monotonic() + seconds
    while True:
        if (seen := look()) is not None:
            return seen
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        select.select([], [], [], 0.01)


class Child:
    """A Python process that runs the lines that it is given."""

    def __init__(self, *, uid: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _OBEDIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
            user=uid,
        )
        assert self("answer = 'ready'") == "ready"
        self.pid = self.process.pid
        self.mark = marked(self.pid)

    def __call__(self, line: str, *, seconds: float = 20.0) -> str:
        """Run a line in the process, and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert ready, f"no answer to {line!r} within {seconds:g} s"
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        """Kill it and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(timeout=10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
