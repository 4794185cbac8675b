"""Samples the GPUs that this process's environment has, beside the same NVML calls made by pynvml alone.

Run as a script with the number of seconds; prints one line of JSON. Both run at 1 Hz at the same time, each
in a thread of its own whose CPU time the kernel counts, so that a busy moment meets both.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia import sources
from jupyter_gpupool.backends.nvidia.discovery import Discovery
from jupyter_gpupool.backends.nvidia.rounds import SLOW_SECONDS
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler


class Bare:
    """The calls of the sampler and nothing else."""

    def __init__(self, events: bool) -> None:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        self.handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._fast = [_call(source.function, source.arguments) for source in sources.FAST]
        self._fast += [
            _call("nvmlDeviceGetMemoryInfo", (pynvml.nvmlMemory_v2,)),
            _call("nvmlDeviceGetComputeRunningProcesses_v3", ()),
            _call("nvmlDeviceGetMPSComputeRunningProcesses_v3", ()),
            _call("nvmlDeviceGetGraphicsRunningProcesses_v3", ()),
            _call("nvmlDeviceGetProcessUtilization", (0,)),
        ]
        self._slow = [_call(source.function, source.arguments) for source in sources.SLOW]
        self._slow += [_call("nvmlDeviceGetFieldValues", (sources.FIELD_IDS,))]
        self._slow += [_call("nvmlDeviceGetNvLinkState", (link,)) for link in range(sources.MOST_LINKS)]
        self._events = pynvml.nvmlEventSetCreate() if events else None

    def round(self, *, slow: bool) -> None:
        """Make the calls of one round."""
        for handle in self.handles:
            for call in self._fast + (self._slow if slow else []):
                with contextlib.suppress(pynvml.NVMLError):
                    call(handle)
        if self._events is not None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetWait_v2(self._events, 1)


def _call(function: str, arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    found = getattr(pynvml, function)
    return lambda handle: found(handle, *arguments)


def cpu_seconds(thread: threading.Thread) -> float:
    """Return what the kernel has counted for a thread, seconds."""
    return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]) / 1e9


def pace(bare: Bare, ended: threading.Event) -> None:
    """Make a round each second."""
    next_slow = time.monotonic()
    while not ended.is_set():
        began = time.monotonic()
        slow = began >= next_slow
        next_slow = began + SLOW_SECONDS if slow else next_slow
        bare.round(slow=slow)
        ended.wait(max(0.0, 1.0 - (time.monotonic() - began)))


def main(seconds: float) -> dict[str, Any]:
    """Measure both."""
    nvml = NVML()
    sampler = DeviceSampler(nvml, Discovery(nvml), seconds=1.0)
    sampler.start()
    snapshot = sampler.latest()
    if snapshot.problem or not snapshot.gpus:
        return {"problem": snapshot.problem or "There is no GPU."}
    ended = threading.Event()
    peer = threading.Thread(target=pace, args=(Bare(events=True), ended), daemon=True)
    peer.start()
    ours = next(thread for thread in threading.enumerate() if thread.name == "gpupool-devices")
    time.sleep(1.5)  # what a start costs is not what sampling costs
    before, waits, rounds = [cpu_seconds(ours), cpu_seconds(peer)], [], set()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        asked = time.perf_counter()
        newest = sampler.latest()
        waits.append(time.perf_counter() - asked)
        rounds.add(newest.taken_seconds)
        time.sleep(0.05)
    took = time.monotonic() - began
    ours_used, bare_used = cpu_seconds(ours) - before[0], cpu_seconds(peer) - before[1]
    ended.set()
    peer.join(10)
    sampler.close()
    return {
        "problem": "",
        "model": snapshot.gpus[0].model,
        "gpus": len(snapshot.gpus),
        "readings": sum(len(one.metrics) + 4 for one in newest.by_uuid.values()),
        "ours": ours_used / took,
        "bare": bare_used / took,
        "hertz": len(rounds) / took,
        "waits": waits,
    }


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]))))
