"""All claims about one GPU, shared in one way.

Rule of this module: the order is that of a lease's life; the last claim is that nothing is left of it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from jupyter_gpupool.backends.seen import Seen
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.selftest.gpu_one import OneHolder, TorchHere
from jupyter_gpupool.selftest.gpu_pair import SideBySide
from jupyter_gpupool.selftest.record import Bench
from jupyter_gpupool.selftest.stage import Stage, until

#: Memory that may stay in use for a moment (contexts of a server), bytes.
_SLACK_BYTES = 256 << 20


class GPUClaims:
    """Runs them.

    Parameters
    ----------
    bench : Bench
        Where they are written down.
    stage : Stage
        The device.
    runtime : Path
        The directory whose processes have to be gone at the end.
    torch : TorchHere
        What is known of PyTorch here.
    """

    def __init__(self, bench: Bench, stage: Stage, runtime: Path, torch: TorchHere) -> None:
        self._bench, self._stage, self._runtime, self._torch = bench, stage, runtime, torch

    def run(self) -> None:
        """Run all claims."""
        OneHolder(self._bench, self._stage, self._torch).run()
        SideBySide(self._bench, self._stage).run()
        self._bench.claim(
            "kill", "when a holder is killed, its memory returns and its neighbour works on", self._kill
        )
        self._bench.claim(
            "release",
            "after the last release no memory, process or server of ours is left",
            self._nothing_left,
        )

    def _kill(self) -> Seen:
        with ExitStack() as stack:
            neighbour = None
            if not self._stage.device.whole_only:
                neighbour = stack.enter_context(self._stage.holder(self._stage.milli))
                self._stage.ready(neighbour)
            before = self._stage.used()
            victim = stack.enter_context(self._stage.holder(self._stage.milli))
            self._stage.ready(victim)
            size = self._stage.share(self._stage.milli).memory_bytes // 4
            if error := victim.ask("alloc", bytes=size)["error"]:
                return Seen(held=False, text=f"{format_memory(size)} were refused ({error})")
            until(lambda: self._stage.used() >= before + size)
            during = self._stage.used()
            victim.kill()
            until(lambda: self._stage.used() <= before + _SLACK_BYTES)
            after = self._stage.used()
            lives = neighbour is None or not neighbour.ask("work", seconds=0.1)["error"]
        text = f"{format_memory(before)} in use before, {format_memory(during)} with it"
        text += f", {format_memory(after)} after"
        if neighbour is not None:
            text += f"; its neighbour {'works on' if lives else 'failed'}"
        return Seen(held=lives and during > before and after <= before + _SLACK_BYTES, text=text)

    def _nothing_left(self) -> Seen:
        at_first = self._stage.at_first_bytes
        until(lambda: self._stage.used() <= at_first + _SLACK_BYTES and not processes_in(self._runtime))
        after, left = self._stage.used(), processes_in(self._runtime)
        text = f"{format_memory(at_first)} in use at first, {format_memory(after)} at the end"
        text += f", and process {left[0]} is left" if left else ", and no process is left"
        return Seen(held=not left and after <= at_first + _SLACK_BYTES, text=text)


def processes_in(directory: Path) -> list[int]:
    """List the processes that were started with a directory in their environment or arguments."""
    wanted = os.fsencode(directory)
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            named = wanted in (path / "environ").read_bytes() or wanted in (path / "cmdline").read_bytes()
        except OSError:  # it ended, or is another user's
            continue
        if named:
            found.append(int(path.name))
    return found
