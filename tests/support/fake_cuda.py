"""The fake CUDA driver (and the few runtime calls on top of it), and processes that use it.

The state of the machine is the fake NVML's (`tests.support.fake_gpus`): a holder here appears there, and
vanishes from there with its process. See tests/fakes/cuda/fake.h for what lies in which file.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.compiled import compiled

FAKES = Path(__file__).parents[1] / "fakes" / "cuda"
STATE = FAKES.with_name("nvml")
HOLDER = Path(__file__).with_name("cuda_holder.py")


def cuda_library() -> Path:
    """Return the fake ``libcuda.so.1``."""
    parts = [path for path in FAKES.iterdir() if path.is_file()]
    return compiled("libcuda.so.1", sorted([*parts, STATE / "state.c", STATE / "state.h"]))


def cudart_library() -> Path:
    """Return the fake ``libcudart.so.13``."""
    return compiled("libcudart.so.13", [FAKES / "runtime" / "runtime.c"], beside=[cuda_library()])


def cuda_environment(state: Path, before: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that finds the fake driver: `before` (os.environ) and more."""
    made = dict(os.environ if before is None else before)
    folders = [str(cuda_library().parent), str(cudart_library().parent)]
    made["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, made.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    made["FAKE_NVML_STATE"] = str(state)
    return made


class CUDAHolder:
    """A real process that uses CUDA as it is told: a context manager that leaves none behind.

    Parameters
    ----------
    environment : mapping
        Its environment (`cuda_environment`, or `FakeGPUs.environment()`); CUDA_VISIBLE_DEVICES and MPS's
        variables in it count, at its first ``init``.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(HOLDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environment),
        )
        self.pid = self.process.pid

    def do(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Have it do something (see ``cuda_holder.py``); in the answer ``error`` is "" when it worked."""
        self.begin(command, **arguments)
        return self.answer()

    def begin(self, command: str, **arguments: Any) -> None:
        """Tell it to do something, and do not wait for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self.process.stdin.flush()

    def answers_within(self, seconds: float) -> bool:
        """Say whether an answer comes in that time."""
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def answer(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the holder ended (status {self.process.poll()})"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def init(self, **environment: str) -> dict[str, Any]:
        """Initialise CUDA and make a context on the first visible device, with these variables set before."""
        return self.do("init", environment=environment)

    def alloc(self, memory_bytes: int) -> dict[str, Any]:
        """Allocate; the answer has ``pointer``."""
        return self.do("alloc", bytes=memory_bytes)

    def kill(self) -> None:
        """End it as a crash does, and reap it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)

    def __enter__(self) -> CUDAHolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
