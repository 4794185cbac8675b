"""Probes in the background: one after another, on idle devices, and out of the way at once when asked.

Rules of this module: one thread, bounded waits; a probe that could not be made is tried a few times more, and
never stands in the way of a holder.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from jupyter_gpupool.backends.base import Backend, BackendError
from jupyter_gpupool.backends.cpu_probe import kernel_release, probe_cpu
from jupyter_gpupool.backends.hand import Hand
from jupyter_gpupool.backends.probebook import ProbeBook

_log = logging.getLogger(__name__)

#: For how long an agent is left alone after its start, and between looks at busy devices, seconds.
DELAY_SECONDS, RETRY_SECONDS = 5.0, 60.0
#: How often a probe that fails to run is tried.
_MOST_TRIES = 3
#: For how long a holder waits for a probe to let go of its device, seconds.
_ROOM_SECONDS = 5.0

Note = Callable[[Hand], None]


class Proving:
    """A thread that runs a job for each device that should be proved.

    Parameters
    ----------
    job : callable
        Probes one device and returns True; False when it is busy. It tells its children to the callable that
        it is given.
    delay_seconds : float
        For how long it waits before the first one.
    retry_seconds : float
        For how long it waits before it looks at busy ones again.
    stop : callable
        Ends a child.
    """

    def __init__(
        self,
        job: Callable[[str, Note], bool],
        *,
        delay_seconds: float = DELAY_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        stop: Callable[[Hand], None] = Hand.kill,
    ) -> None:
        self._job, self._stop = job, stop
        self._delay_seconds, self._retry_seconds = delay_seconds, retry_seconds
        self._changed = threading.Condition()
        self._wanted: list[str] = []
        self._seen: set[str] = set()
        self._tries: dict[str, int] = {}
        self._current = ""
        self._hands: list[Hand] = []
        self._closed = self._interrupted = False
        self._thread: threading.Thread | None = None

    def prove(self, device_ids: Collection[str]) -> None:
        """Have these devices probed, each once; returns at once."""
        with self._changed:
            new = [each for each in device_ids if each not in self._seen]
            self._seen.update(new)
            self._wanted += new
            if new and self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="gpupool-probes", daemon=True)
                self._thread.start()

    def make_room(self, device_id: str) -> None:
        """Stop a probe on this device, and return when it is gone: a holder comes."""
        with self._changed:
            if self._current == device_id:
                self._interrupted = True
                self._stop_children()
                self._changed.wait_for(lambda: self._current != device_id, timeout=_ROOM_SECONDS)

    def pids(self) -> frozenset[int]:
        """Return the processes of the probe that runs now."""
        with self._changed:
            return frozenset(hand.pid for hand in self._hands)

    def idle(self) -> bool:
        """Say whether nothing is left to prove."""
        with self._changed:
            return not self._wanted and not self._current

    def close(self) -> None:
        """Stop, and leave nothing behind."""
        with self._changed:
            self._closed = True
            self._stop_children()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=2 * _ROOM_SECONDS)

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        self._rest(self._delay_seconds)
        tried: set[str] = set()
        while (device_id := self._next()) is not None:
            done = self._try(device_id)
            with self._changed:
                self._current, self._hands = "", []
                if not done:
                    self._wanted.append(device_id)
                    tried.add(device_id)
                self._changed.notify_all()
                all_tried = bool(self._wanted) and tried.issuperset(self._wanted)
            if all_tried:
                self._rest(self._retry_seconds)
                tried.clear()

    def _next(self) -> str | None:
        """Take the next device; None, and the end of the thread, when there is none."""
        with self._changed:
            if self._closed or not self._wanted:
                self._thread = None
                return None
            self._interrupted = False
            self._current = self._wanted.pop(0)
            return self._current

    def _try(self, device_id: str) -> bool:
        """Probe a device; say whether that is settled."""
        try:
            return self._job(device_id, self._note)
        except (BackendError, OSError) as error:
            if self._interrupted:
                return False
            self._tries[device_id] = self._tries.get(device_id, 0) + 1
            _log.info("The limits of %s could not be probed: %s", device_id, error)
            return self._tries[device_id] >= _MOST_TRIES

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._closed or time.monotonic() >= until, timeout=seconds)

    def _note(self, hand: Hand) -> None:
        with self._changed:
            self._hands.append(hand)
            if self._closed or self._interrupted:
                self._stop_children()

    def _stop_children(self) -> None:
        for hand in self._hands:
            self._stop(hand)


class CPUProver:
    """Proves the limits of this machine's CPU, where that was not done yet.

    Parameters
    ----------
    book : ProbeBook
        Where results are kept.
    backend : callable
        Makes a backend that serves the probe alone.
    busy : callable
        Says that there are leases on the CPU.
    """

    def __init__(
        self,
        book: ProbeBook,
        backend: Callable[[], Backend],
        busy: Callable[[], bool],
        delay_seconds: float = DELAY_SECONDS,
    ) -> None:
        self._book, self._backend, self._busy = book, backend, busy
        self.proving = Proving(self._probe, delay_seconds=delay_seconds)

    def _probe(self, device_id: str, note: Note) -> bool:
        if self._busy():
            return False
        release = kernel_release()
        backend = self._backend()
        for device in backend.discover():
            if device.id != device_id:
                continue
            found = probe_cpu(
                backend,
                device,
                note=note,
                known=lambda mechanism: self._book.result(device_id, release, mechanism) is not None,
            )
            for mechanism, result in found.items():
                self._book.write(device_id, release, mechanism, result)
        return True
