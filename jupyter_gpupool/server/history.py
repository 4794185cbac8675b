"""What the server remembers of the pool's last hours, so that a page that is opened shows them.

Rules of this module: bounded, in memory only, at one step for everything; an unknown reading is None, never
0. A pool that says nothing has not changed; one that is not heard leaves a gap.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from jupyter_gpupool.protocol.documents import DeviceDoc, PoolDoc

#: How far two values are apart, seconds.
STEP_SECONDS = 10.0
#: How many values are kept of the pool as a whole (eight hours), and of each device (ten minutes).
POOL_STEPS, DEVICE_STEPS = 2880, 60

Series = deque[float | None]


class HistoryDoc(msgspec.Struct, kw_only=True, frozen=True):
    """The pool's past: each series has its newest value last, and they are one step apart."""

    step_seconds: float
    #: For how long the newest values have been what they are.
    age_seconds: float
    #: Percent of the devices' compute that was leased.
    leased: list[float | None]
    #: How busy the devices were, percent.
    busy: list[float | None]
    #: How much of the devices' memory was in use, percent.
    memory: list[float | None]
    #: How many requests waited.
    waiting: list[float | None]
    #: How busy each device was, by its id.
    devices: dict[str, list[float | None]]


class History:
    """Keeps one value of each series for each step.

    Parameters
    ----------
    clock : callable
        Seconds on a clock that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: int | None = None
        self._noted_at = 0.0
        self._heard = True
        self._pool: list[Series] = [deque(maxlen=POOL_STEPS) for _ in range(4)]
        self._devices: dict[str, Series] = {}

    def note(self, doc: PoolDoc) -> None:
        """Take a snapshot's readings; within a step the newest count."""
        now = self._clock()
        step = int(now // STEP_SECONDS)
        missed = 0 if self._last is None else min(step - self._last, POOL_STEPS)
        for _ in range(missed):
            self._advance()
        if self._last is None:
            self._advance()
        self._last, self._noted_at, self._heard = step, now, True
        for series, value in zip(self._pool, _summary(doc), strict=True):
            series[-1] = value
        known = {device.id for device in doc.devices}
        self._devices = {name: series for name, series in self._devices.items() if name in known}
        for device in doc.devices:
            series = self._devices.setdefault(device.id, deque([None], maxlen=DEVICE_STEPS))
            series[-1] = device.readings.utilization_percent

    def lost(self) -> None:
        """Note that the pool is not heard until the next snapshot."""
        self._heard = False

    def doc(self) -> HistoryDoc:
        """Show all of it."""
        leased, busy, memory, waiting = (list(series) for series in self._pool)
        return HistoryDoc(
            step_seconds=STEP_SECONDS,
            age_seconds=self._clock() - self._noted_at if self._last is not None else 0.0,
            leased=leased,
            busy=busy,
            memory=memory,
            waiting=waiting,
            devices={name: list(series) for name, series in self._devices.items()},
        )

    def _advance(self) -> None:
        for series in (*self._pool, *self._devices.values()):
            series.append(series[-1] if series and self._heard else None)


def _summary(doc: PoolDoc) -> tuple[float | None, float | None, float | None, float]:
    """Return the pool in four numbers; devices that nobody can have or has do not count."""
    counted = [device for device in doc.devices if device.offered or device.leases]
    leased = _mean(100 - device.free_compute_milli / 10 for device in counted)
    busy = _mean(device.readings.utilization_percent for device in counted)
    memory = _mean(_memory_percent(device) for device in counted)
    return leased, busy, memory, float(len(doc.queue))


def _memory_percent(device: DeviceDoc) -> float | None:
    used = device.readings.memory_used_bytes
    return None if used is None or not device.memory_bytes else 100 * used / device.memory_bytes


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None
