"""Proves the limits of idle GPUs in the background, where that was not done yet.

Rules of this module: never on a device that somebody uses; a holder that comes has the device at once; what
a probe makes is written down before it is made, and taken away by the next agent when this one is killed.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.backends.hand import Hand
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.probe import EXCEEDABLE, CannotTell, probe_rung, probe_share, site_of
from jupyter_gpupool.backends.nvidia.rungs.base import Rung, RungName
from jupyter_gpupool.backends.probebook import ProbeBook
from jupyter_gpupool.backends.proving import DELAY_SECONDS, RETRY_SECONDS, Note, Proving

_log = logging.getLogger(__name__)


class _Open(msgspec.Struct, kw_only=True):
    """A probe that has not been cleared away."""

    rung: RungName
    lease_id: str
    record: msgspec.Raw


class Prober:
    """Proves the limits of GPUs.

    Parameters
    ----------
    book : ProbeBook
        Where results are kept.
    rungs : sequence of Rung
        The mechanisms of this node.
    gpu : callable
        Returns the GPU with a UUID, None when it is not there.
    busy : callable
        Says why a device is not idle, one clause; empty when it is.
    folder : Path
        Where the probe that runs is written down.
    delay_seconds, retry_seconds : float
        For how long it waits before the first probe, and before it looks at busy devices again.
    """

    def __init__(
        self,
        book: ProbeBook,
        rungs: Sequence[Rung],
        *,
        gpu: Callable[[str], GPU | None],
        busy: Callable[[str], str],
        folder: Path,
        delay_seconds: float = DELAY_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._book = book
        self._rungs = {rung.name: rung for rung in rungs}
        self._gpu, self._busy = gpu, busy
        self._open = folder / "probe-open.json"
        self._proving = Proving(
            self._probe, delay_seconds=delay_seconds, retry_seconds=retry_seconds, stop=self._stop
        )
        self._running: tuple[Rung, GPU, str] | None = None
        self._record = b"{}"

    def prove(self, uuids: Collection[str]) -> None:
        """Have these devices proved; returns at once."""
        self._proving.prove(uuids)

    def make_room(self, uuid: str) -> None:
        """Stop a probe on a device, and return when it is gone."""
        self._proving.make_room(uuid)

    def pids(self) -> frozenset[int]:
        """Return the processes of the probe that runs: they use a device without a lease, and may."""
        return self._proving.pids()

    def idle(self) -> bool:
        """Say whether nothing is left to prove."""
        return self._proving.idle()

    def close(self) -> None:
        """Stop, and leave nothing behind."""
        self._proving.close()

    def clear_away(self) -> None:
        """Take away what a probe of an agent left that was killed."""
        try:
            left = msgspec.json.decode(self._open.read_bytes(), type=_Open)
        except (OSError, msgspec.DecodeError):
            return
        if left.rung in self._rungs:
            self._rungs[left.rung].take_away(left.lease_id, left.record)
        self._open.unlink()

    # --- in the background --------------------------------------------------------------------------

    def _probe(self, device_id: str, note: Note) -> bool:
        self.clear_away()
        gpu = self._gpu(device_id)
        for rung in self._rungs.values() if gpu is not None else ():
            if gpu is None or rung.name not in EXCEEDABLE or self._known(gpu, rung) or rung.impossible(gpu):
                continue
            if self._busy(device_id):
                return False
            self._prove_rung(gpu, rung, note)
        return True

    def _known(self, gpu: GPU, rung: Rung) -> bool:
        return self._book.result(gpu.uuid, gpu.driver, rung.name.value) is not None

    def _prove_rung(self, gpu: GPU, rung: Rung, note: Note) -> None:
        lease_id = f"lease_probe-{uuid.uuid4().hex[:12]}"
        self._running = (rung, gpu, lease_id)
        try:
            result = probe_rung(rung, gpu, lease_id, note, self._keep)
        except CannotTell as why:
            _log.info("%s, %s: %s", gpu.name, rung.name.value, why)
            return
        finally:
            self._running = None
            with contextlib.suppress(BackendError, OSError):  # the next probe tries again
                self.clear_away()
        self._book.write(gpu.uuid, gpu.driver, rung.name.value, result)
        _log.info("%s, %s: %s", gpu.name, rung.name.value, result.detail)

    def _keep(self, record: bytes) -> None:
        """Write down how to take away what the probe that runs makes."""
        if self._running is None:
            return
        rung, _, lease_id = self._running
        self._record = record
        made = _Open(rung=rung.name, lease_id=lease_id, record=msgspec.Raw(record))
        self._open.parent.mkdir(parents=True, exist_ok=True)
        self._open.write_bytes(msgspec.json.encode(made))

    def _stop(self, hand: Hand) -> None:
        """End the child of a probe, as a holder is ended."""
        if self._running is not None and hand.alive():
            rung, gpu, lease_id = self._running
            site = site_of(gpu, probe_share(gpu), hand, lease_id)
            with contextlib.suppress(BackendError, OSError):  # it is ended in any case
                rung.quiesce(site, msgspec.Raw(self._record), [hand.pid])
        hand.kill()
