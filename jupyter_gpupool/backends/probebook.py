"""What was proved by exceeding limits, kept over restarts.

Rules of this module: one result for each device, version of its driver, and mechanism; a file that cannot be
read is no proof of anything, and never an error.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc

#: Name of the file, in the data directory.
PROBES_FILE = "probes.json"
#: Version of its format.
_FORMAT = 1


class ProbeResult(msgspec.Struct, kw_only=True, frozen=True):
    """What exceeding the limits of one mechanism on one device showed."""

    #: UTC, ISO 8601, to the second.
    when: str
    #: Limits that held.
    proved: tuple[Resource, ...] = ()
    #: Limits that did not hold, and what happened instead, one sentence.
    failed: dict[str, str] = {}
    #: The numbers that were seen, one sentence.
    detail: str = ""

    @property
    def ok(self) -> bool:
        """True when every limit that was exceeded held."""
        return bool(self.proved) and not self.failed

    def proves(self, resource: Resource) -> bool:
        """Say whether this resource's limit was exceeded and held."""
        return resource in self.proved and resource.value not in self.failed

    def denies(self, resource: Resource) -> str:
        """Return what happened when this resource's limit did not hold; empty when it held or is unknown."""
        return self.failed.get(resource.value, "")


class _File(msgspec.Struct, kw_only=True):
    format: int = _FORMAT
    #: "DEVICE DRIVER MECHANISM" -> result.
    results: dict[str, ProbeResult] = {}


def probed_now(proved: Sequence[Resource], failed: Mapping[Resource, str], detail: str) -> ProbeResult:
    """Return a result with the date of now."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {resource.value: text for resource, text in failed.items()}
    return ProbeResult(when=now, proved=tuple(proved), failed=said, detail=detail)


class ProbeBook:
    """The results of one machine.

    Parameters
    ----------
    path : Path
        The file (`PROBES_FILE` in the data directory); its directory is made when something is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._results: dict[str, ProbeResult] = {}

    def result(self, device_id: str, driver: str, mechanism: str) -> ProbeResult | None:
        """Return what is known; None when it was never tried. Cheap: the file is read when it changed."""
        return self._read().get(_key(device_id, driver, mechanism))

    def write(self, device_id: str, driver: str, mechanism: str, result: ProbeResult) -> None:
        """Write a result down, beside those that others wrote."""
        import fcntl

        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen = None
            results = {**self._read(), _key(device_id, driver, mechanism): result}
            draft = self._path.with_suffix(".new")
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(_File(results=results))))
            draft.replace(self._path)

    def _read(self) -> dict[str, ProbeResult]:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - called at every look at a lease
        except OSError:
            return {}
        if (seen := (status.st_mtime_ns, status.st_size)) != self._seen:
            self._seen, self._results = seen, {}
            with contextlib.suppress(OSError, msgspec.DecodeError):
                file = msgspec.json.decode(self._path.read_bytes(), type=_File)
                self._results = file.results if file.format == _FORMAT else {}
        return self._results


def _key(device_id: str, driver: str, mechanism: str) -> str:
    return f"{device_id} {driver} {mechanism}"


def judged(doc: IsolationDoc, result: ProbeResult | None) -> IsolationDoc:
    """Return what is to be said of a limit that was read back, in the light of a probe of its mechanism.

    It is `probed` where the limit was exceeded and held; nothing is in force where it did not hold; and it
    stays as it is where that was never tried, or where the limit is still pending.
    """
    if result is None or doc.verified is not Verified.READ_BACK:
        return doc
    if denied := result.denies(doc.resource):
        note = f"A probe on {result.when[:10]} showed that it does not hold: {denied}"
        return msgspec.structs.replace(doc, strength=Strength.NONE, note=note)
    if result.proves(doc.resource):
        return msgspec.structs.replace(doc, verified=Verified.PROBED)
    return doc
