"""The one thread that reads the GPUs of a node, for everybody who wants to know.

Rules of this module: who asks never waits for the driver, except for the first sample and for a `refresh`,
both bounded; a driver that does not answer is said to, and keeps nobody.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.nvidia.health.rules import HealthRules
from jupyter_gpupool.backends.nvidia.rounds import Look, Rounds
from jupyter_gpupool.backends.nvidia.snapshot import GPUSnapshot, Snapshot

__all__ = ["STALL_SECONDS", "DeviceSampler", "GPUSnapshot", "Snapshot"]

logger = logging.getLogger(__name__)

#: A round that takes longer means that the driver does not answer, seconds.
STALL_SECONDS = 10.0
#: Pause when nobody asks, or when there is no GPU, seconds.
IDLE_SECONDS = 5.0
#: How long `close` waits for a round to end, seconds.
_CLOSE_SECONDS = 2.0


class DeviceSampler:
    """Samples all GPUs in a thread of its own.

    Parameters
    ----------
    nvml : NVML
        The door.
    discovery : Look
        Which GPUs there are.
    seconds : float
        Pause between two samples while somebody asks.
    health : HealthRules
        By which health is judged.
    patience_seconds : float
        How long the first sample, and a refresh, are waited for.
    clock : callable
        Monotonic seconds: of samples, health and stalls.
    """

    def __init__(
        self,
        nvml: NVML,
        discovery: Look,
        *,
        seconds: float = 1.0,
        health: HealthRules | None = None,
        patience_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rounds = Rounds(nvml, discovery, health or HealthRules(), clock)
        self._seconds = seconds
        self._patience_seconds = patience_seconds
        self._waited = False
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._published = threading.Condition()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._snapshot: Snapshot | None = None
        self._taken = 0
        self._began: float | None = None
        self._asked = clock()
        self._logged = ""

    def start(self) -> None:
        """Begin to sample; harmless when it has begun."""
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name="gpupool-devices", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop sampling; a thread that the driver keeps is left behind, it ends with the process."""
        self._closing = True
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_CLOSE_SECONDS)
        if thread is None or not thread.is_alive():
            self._rounds.close()

    def latest(self) -> Snapshot:
        """Return the newest sample; waits only for the very first one, and not for long."""
        self._ask()
        snapshot = self._snapshot
        if snapshot is None:
            return self._silence() if self._waited else self.refresh()
        now, began = self._clock(), self._began
        if began is not None and now - began > STALL_SECONDS:
            return snapshot.stalled(now - began)
        age = now - snapshot.taken_seconds
        if self._thread is not None and age > STALL_SECONDS + max(self._seconds, IDLE_SECONDS):
            return snapshot.stalled(age)
        return snapshot

    def refresh(self) -> Snapshot:
        """Take a sample now and return it; when the driver does not answer in time, what was known before."""
        if self._thread is None:
            self._once()
        else:
            with self._published:
                wanted = self._taken + (1 if self._began is None else 2)
                self._wake.set()
                self._published.wait_for(lambda: self._taken >= wanted, self._patience_seconds)
        self._waited = True
        return self.latest()

    def _silence(self) -> Snapshot:
        return Snapshot(taken_seconds=self._clock(), problem="The NVIDIA driver has not answered yet.")

    def _ask(self) -> None:
        """Note that somebody wants to know, and end a long pause."""
        now = self._clock()
        if self._idle(now):
            self._wake.set()
        self._asked = now

    def _idle(self, now: float) -> bool:
        return now - self._asked > 3 * self._seconds

    def _run(self) -> None:
        while not self._closing:
            began = time.monotonic()
            self._wake.clear()
            self._once()
            snapshot = self._snapshot
            busy = snapshot is not None and snapshot.gpus and not self._idle(self._clock())
            pause = self._seconds if busy else max(self._seconds, IDLE_SECONDS)
            self._wake.wait(max(0.05, pause - (time.monotonic() - began)))

    def _once(self) -> None:
        """Take a round and publish it."""
        with self._one_at_a_time:
            self._began = self._clock()
            try:
                self._snapshot = self._rounds.take()
            except Exception as error:  # what is wrong here must not blind the node for good
                if repr(error) != self._logged:  # once, not with every sample
                    self._logged = repr(error)
                    logger.exception("A sample of the GPUs could not be taken")
            finally:
                with self._published:
                    self._began = None
                    self._taken += 1
                    self._published.notify_all()
