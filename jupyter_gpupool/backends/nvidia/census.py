"""The devices of a node: which there are, how they do, and who uses them without a lease.

Rules of this module: everything comes from the sampler's latest look, so that nothing here waits for a
driver; a device that went away stays listed as failed until it is back, because leases may be on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from jupyter_gpupool.backends._nvml import NVML
from jupyter_gpupool.backends.base import Attachment, BackendError
from jupyter_gpupool.backends.nvidia import ladder, reports
from jupyter_gpupool.backends.nvidia.climb import Climber
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Mode
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.sampler import DeviceSampler, Snapshot
from jupyter_gpupool.backends.nvidia.undo import load_undo
from jupyter_gpupool.backends.nvidia.unmanaged import Strangers, Unmanaged
from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.protocol.messages import DeviceReport, DeviceSample


class Census:
    """Lists and samples the devices.

    Parameters
    ----------
    nvml : NVML
        The door.
    sampler : DeviceSampler
        Looks at the devices; started when there is a driver.
    climber : Climber
        The node's rungs.
    presence : Presence
        Finds processes.
    strangers : Strangers
        Handles use without a lease.
    rules : NodeRules
        What an administrator decided.
    """

    def __init__(
        self,
        nvml: NVML,
        sampler: DeviceSampler,
        climber: Climber,
        presence: Presence,
        strangers: Strangers,
        rules: NodeRules,
    ) -> None:
        self._nvml = nvml
        self._sampler = sampler
        self._climber = climber
        self._presence = presence
        self._strangers = strangers
        self._rules = rules
        self._started = False
        self._gpus: dict[str, GPU] = {}
        self._reports: dict[str, DeviceReport] = {}
        self._unmanaged: dict[str, Unmanaged] = {}
        #: Returns further processes that are the pool's own.
        self.own_pids: Callable[[], Collection[int]] = lambda: ()

    def devices(self) -> list[DeviceReport]:
        """Report all devices; without a driver there are none, and nothing runs."""
        if not self._started:
            if self._nvml.open():
                return []
            self._sampler.start()
            self._started = True
        snapshot = self._sampler.latest()
        leasable = {gpu.uuid: gpu for gpu in snapshot.gpus if not gpu.mig_enabled}
        self._gpus.update(leasable)
        found = {uuid: self._report(gpu, snapshot) for uuid, gpu in leasable.items()}
        for uuid, before in self._reports.items():
            if uuid not in found and not self._changed_form(before, snapshot):
                why = snapshot.problem or "The NVIDIA driver does not list it any more: it may need a reset."
                found[uuid] = reports.lost(before, why)
        self._reports = found
        return list(found.values())

    def problem(self) -> str:
        """Return why there are no GPUs, one clause; empty when there are any."""
        return self._nvml.open() or ("" if self._reports else "the driver lists none")

    def gpu(self, device_id: str) -> GPU:
        """Return a device.

        Raises
        ------
        BackendError
            If there is none with this id, or the driver does not list it now.
        """
        if (found := self.find(device_id)) is not None:
            return found
        if device_id not in self._gpus:
            raise BackendError(f"There is no device {device_id} on this node.", hint="List the devices.")
        return self._gpus[device_id]

    def find(self, device_id: str) -> GPU | None:
        """Return a device; None if the driver does not list it now."""
        return next((gpu for gpu in self._sampler.latest().gpus if gpu.uuid == device_id), None)

    def busy(self, device_id: str) -> str:
        """Say why a device is not idle, one clause; empty when nobody uses it."""
        gpu = self.find(device_id)
        if gpu is None:
            return "the driver does not list it"
        if self._presence.is_leased(device_id):
            return "a lease is on it"
        found = self._presence.on_device(gpu, live=True)
        if found.value is None:
            return f"the driver does not say who uses it ({found.reason})"
        return "processes use it" if found.value else ""

    def mode(self, gpu: GPU) -> Mode:
        """Return how the leases on a device share it."""
        return ladder.mode_of(self._climber.device(gpu), self._rules.rule_for(gpu.model).sharing)

    def sample(self, leases: Sequence[Attachment]) -> list[DeviceSample]:
        """Read all GPUs, also those in MIG mode, and handle use without a lease."""
        if not self._started:
            return []
        snapshot = self._sampler.latest()
        ours = self._ours(leases)
        for gpu in snapshot.gpus:
            if not gpu.mig_enabled:
                self._unmanaged[gpu.uuid] = self._look_for_strangers(gpu, ours)
        return [self._sample(gpu, snapshot) for gpu in snapshot.gpus if gpu.uuid in snapshot.by_uuid]

    def close(self) -> None:
        """Stop sampling."""
        self._sampler.close()
        self._nvml.close()
        self._started = False

    def _report(self, gpu: GPU, snapshot: Snapshot) -> DeviceReport:
        unmanaged = self._unmanaged.get(gpu.uuid)
        return reports.report(
            gpu,
            snapshot.by_uuid.get(gpu.uuid),
            self._climber,
            self._rules,
            None if unmanaged is None else unmanaged.memory_bytes,
        )

    def _changed_form(self, before: DeviceReport, snapshot: Snapshot) -> bool:
        """Say whether a device is not there because MIG mode or instances were changed."""
        if before.parent_id:
            return any(gpu.uuid == before.parent_id for gpu in snapshot.gpus)
        return any(gpu.uuid == before.id for gpu in snapshot.gpus)

    def _ours(self, leases: Sequence[Attachment]) -> dict[str, set[int]]:
        """Return the processes of the leases on each device."""
        found: dict[str, set[int]] = {}
        for attachment in leases:
            device = attachment.share.device_id
            self._presence.note(attachment.lease_id, attachment.holder, device)
            known = load_undo(attachment).known
            tree = self._presence.tree(attachment.lease_id, attachment.holder, known)
            found.setdefault(device, set()).update(mark.pid for mark in tree)
        return found

    def _look_for_strangers(self, gpu: GPU, ours: dict[str, set[int]]) -> Unmanaged:
        found = self._presence.on_device(gpu)
        if found.value is None:
            return Unmanaged(memory_bytes=None)
        mine = {*ours.get(gpu.uuid, ()), *self.own_pids(), os.getpid()}
        return self._strangers.look(gpu, found.value, mine, leased=gpu.uuid in ours)

    def _sample(self, gpu: GPU, snapshot: Snapshot) -> DeviceSample:
        one = snapshot.by_uuid[gpu.uuid]
        unmanaged = self._unmanaged.get(gpu.uuid, Unmanaged(memory_bytes=None))
        return DeviceSample(
            device_id=gpu.uuid,
            readings=one.readings,
            unmanaged_bytes=unmanaged.memory_bytes,
            metrics=dict(one.metrics),
            missing=dict(one.missing),
            unmanaged=list(unmanaged.processes),
        )
