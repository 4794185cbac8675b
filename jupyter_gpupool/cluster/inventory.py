"""The devices of a node: which there are, which of them are this agent's, and which backend has each.

Rule of this module: synchronous, called in the agent's one backend thread; the list is replaced, never
changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import msgspec

from jupyter_gpupool.backends.base import Attachment, Backend, BackendError
from jupyter_gpupool.cluster.calls import call
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, NoSuchDevice
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample, ShareOrder

logger = logging.getLogger(__name__)

#: Unmanaged memory is told again when it moved by this part of the device.
_NOTICEABLE_PART = 64


class Inventory:
    """Discovers, locks and samples the devices of all backends.

    Parameters
    ----------
    backends : sequence of Backend
        In the order in which their devices are listed.
    locks : DeviceLocks
        Machine-wide locks; emulated devices need none.
    """

    def __init__(self, backends: Sequence[Backend], locks: DeviceLocks) -> None:
        self._backends = tuple(backends)
        self._locks = locks
        self._owners: dict[str, Backend] = {}
        self._complaints: dict[str, str] = {}
        #: All devices, as they were when last looked at.
        self.devices: tuple[DeviceReport, ...] = ()

    def refresh(self) -> bool:
        """Look at all devices again and lock those that are free; tell whether something changed."""
        before = self.devices
        found: list[DeviceReport] = []
        for backend in self._backends:
            try:
                devices = call(backend.discover)
            except BackendError as error:
                self._complain("listed", error)
                devices = [device for device in before if self._owners.get(device.id) is backend]
            self._owners.update(dict.fromkeys((device.id for device in devices), backend))
            found.extend(self._locked(device) for device in devices)
        self.devices = tuple(found)
        return _changed(before, self.devices)

    def prove(self) -> None:
        """Have the limits of devices that are ours proved, in the background, where that was not done yet."""
        ours = [device.id for device in self.devices if not device.taken_by and not device.emulated]
        for backend in self._backends:
            try:
                call(backend.prove, [each for each in ours if self._owners.get(each) is backend])
            except GPUPoolError as error:
                self._complain("proved", error)

    def backend(self, device_id: str) -> Backend:
        """Return the backend of a device.

        Raises
        ------
        NoSuchDevice
            If the node has no such device.
        """
        try:
            return self._owners[device_id]
        except KeyError:
            raise NoSuchDevice(f"This node has no device {device_id}.") from None

    def name(self, device_id: str) -> str:
        """Return what people call a device; its id when it is not there now."""
        return next((device.name for device in self.devices if device.id == device_id), device_id)

    def part(self, shares: Sequence[ShareOrder]) -> float | None:
        """Return which part of all GPUs of this node shares are, at most 1.

        None where that says nothing about the node: a share of the node's own processor is among them, or
        of a device that is emulated or not there.
        """
        known = {device.id: device for device in self.devices}
        chosen = [known.get(share.device_id) for share in shares]
        if not chosen or any(it is None or it.emulated or it.kind is DeviceKind.CPU for it in chosen):
            return None
        real = [it for it in self.devices if it.kind is not DeviceKind.CPU and not it.emulated]
        gpus = {device.parent_id or device.id for device in real}
        milli = sum(
            share.compute_milli * (1000 if device is None else device.parent_milli) / 1000
            for share, device in zip(shares, chosen, strict=True)
        )
        return min(1.0, milli / (1000 * len(gpus)))

    def sample(self, attachments: Iterable[Attachment]) -> list[DeviceSample]:
        """Read the telemetry of all devices."""
        by_backend: dict[int, list[Attachment]] = {}
        for attachment in attachments:
            owner = self._owners.get(attachment.share.device_id)
            by_backend.setdefault(id(owner), []).append(attachment)
        samples: list[DeviceSample] = []
        for backend in self._backends:
            try:
                samples.extend(call(backend.sample, by_backend.get(id(backend), [])))
            except BackendError as error:
                self._complain("sampled", error)
        return samples

    def close(self) -> None:
        """Give the devices back, and let the backends close what they opened; leases stay attached."""
        for backend in self._backends:
            try:
                call(backend.close)
            except GPUPoolError as error:
                self._complain("closed", error)
        self._locks.close()

    def _complain(self, what: str, error: GPUPoolError) -> None:
        """Log a fault that may come back every second, once."""
        if self._complaints.get(what) != str(error):
            self._complaints[what] = str(error)
            logger.warning("Devices of one kind cannot be %s", what, exc_info=error)

    def _locked(self, device: DeviceReport) -> DeviceReport:
        if device.emulated:
            return device
        return msgspec.structs.replace(device, taken_by=self._locks.take(device.id))


def _changed(before: Sequence[DeviceReport], after: Sequence[DeviceReport]) -> bool:
    """Compare two lists; unmanaged memory counts only where it moved noticeably."""
    if len(before) != len(after):
        return True
    return any(_moved(old, new) for old, new in zip(before, after, strict=True))


def _moved(old: DeviceReport, new: DeviceReport) -> bool:
    if old.unmanaged_bytes is None or new.unmanaged_bytes is None:
        return old != new
    if abs(old.unmanaged_bytes - new.unmanaged_bytes) > new.memory_bytes // _NOTICEABLE_PART:
        return True
    return old != msgspec.structs.replace(new, unmanaged_bytes=old.unmanaged_bytes)
