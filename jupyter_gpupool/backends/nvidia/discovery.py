"""Which GPUs and MIG instances there are.

Rules of this module: identity is the UUID, order is that on the PCI bus; memory and multiprocessors are what
NVML says, never computed from a profile's name; a GPU that cannot be read hides no other. MIG instances are
taken as they are at each look: whoever changes the geometry (nothing here does) has but to look again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from jupyter_gpupool.backends._nvml import NVML, Reason
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.unified import DeviceMemory, Memory

logger = logging.getLogger(__name__)

#: CUDA cores of one multiprocessor, by compute capability: NVML tells only the cores of a whole GPU.
_CORES_OF_ONE = {
    (6, 0): 64,
    (6, 1): 128,
    (6, 2): 128,
    (7, 0): 64,
    (7, 2): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (11, 0): 128,
    (12, 0): 128,
    (12, 1): 128,
}
#: NVML's compute modes; the second (one thread) is no longer used by drivers.
_COMPUTE_MODES = {0: "default", 1: "exclusive_process", 2: "prohibited", 3: "exclusive_process"}


class Discovery:
    """Looks which devices there are.

    Parameters
    ----------
    nvml : NVML
        The door.
    memory : DeviceMemory or None
        Reads memory; None for this machine's.
    """

    def __init__(self, nvml: NVML, memory: DeviceMemory | None = None) -> None:
        self._nvml = nvml
        self._memory = memory or DeviceMemory(nvml)
        #: Number of each GPU seen so far: a GPU that is lost for a while must not rename the others.
        self._numbers: dict[str, int] = {}
        #: Why there is no GPU, one clause; empty when there is any.
        self.problem = ""
        #: What could not be read though it is there, one sentence each; logged when it is new.
        self.notes: tuple[str, ...] = ()

    def look(self) -> list[GPU]:
        """List the GPUs in PCI order, each one's MIG instances after it.

        A GPU in MIG mode is listed for the sake of its telemetry (``mig_enabled``): only its instances can
        be leased.
        """
        before, self.notes = set(self.notes), ()
        found = self._look()
        self._log(before)
        return found

    def _look(self) -> list[GPU]:
        problem = self._nvml.open()
        self.problem = problem
        if problem:
            return []
        count = self._nvml.read("nvmlDeviceGetCount")
        if count.value is None:
            self.problem = count.reason
            return []
        found: list[GPU] = []
        for handle, place, uuid in self._handles(int(count.value)):
            gpu = self._whole(handle, place, uuid)
            found += [gpu, *(self._instances(gpu, handle) if gpu.mig_enabled else [])]
        if not found:
            self.problem = next(iter(self.notes), "the driver finds no GPU").rstrip(".")
        return found

    def _handles(self, count: int) -> list[tuple[Any, tuple[int, str], str]]:
        """Open every GPU and sort them by their place on the bus: (handle, place, UUID)."""
        found = []
        for index in range(count):
            handle = self._nvml.read("nvmlDeviceGetHandleByIndex", index)
            if handle.value is None:
                self._note(f"GPU {index} cannot be opened: {handle.reason}")
                continue
            uuid = self._nvml.read("nvmlDeviceGetUUID", handle.value)
            if uuid.value is None:
                self._note(f"GPU {index} does not say who it is: {uuid.reason}")
                continue
            found.append((handle.value, self._place(handle.value, index), uuid.value))
        found.sort(key=lambda one: one[1])
        for _, _, uuid in found:
            self._numbers.setdefault(uuid, len(self._numbers))
        return found

    def _place(self, handle: Any, index: int) -> tuple[int, str]:
        """Return what sorts a GPU, and its bus id; NVML's own order where it does not tell."""
        info = self._nvml.read("nvmlDeviceGetPciInfo", handle).value
        if info is None:
            return index, ""
        bus_id = f"{info.domain:08X}:{info.bus:02X}:{info.device:02X}.0"
        return info.domain << 16 | info.bus << 8 | info.device, bus_id

    def _whole(self, handle: Any, place: tuple[int, str], uuid: str) -> GPU:
        read = self._nvml.read
        capability = read("nvmlDeviceGetCudaComputeCapability", handle).value or (0, 0)
        memory = self._memory_of(f"GPU {place[1] or uuid}", handle)
        return GPU(
            uuid=uuid,
            name=f"cuda{self._numbers[uuid]}",
            model=read("nvmlDeviceGetName", handle).value or "NVIDIA GPU",
            memory_bytes=memory.total_bytes,
            multiprocessors=self._multiprocessors(handle, capability),
            pci_bus_id=place[1],
            driver=read("nvmlSystemGetDriverVersion").value or "",
            compute_capability=(int(capability[0]), int(capability[1])),
            compute_mode=self._compute_mode(handle),
            unified=memory.unified,
            mig_enabled=bool((read("nvmlDeviceGetMigMode", handle).value or (0,))[0]),
        )

    def _multiprocessors(self, handle: Any, capability: tuple[int, int]) -> int:
        """Count a GPU's multiprocessors; 0 when NVML does not say."""
        cores = self._nvml.read("nvmlDeviceGetNumGpuCores", handle).value
        each = _CORES_OF_ONE.get((int(capability[0]), int(capability[1])))
        return int(cores) // each if cores and each else 0

    def _compute_mode(self, handle: Any) -> str:
        mode = self._nvml.read("nvmlDeviceGetComputeMode", handle).value
        return "" if mode is None else _COMPUTE_MODES.get(mode, "")

    def _memory_of(self, what: str, handle: Any) -> Memory:
        memory = self._memory.read(handle)
        if memory.value is None:
            self._note(f"{what} does not tell its memory, so that none of it can be leased: {memory.reason}")
            return Memory(total_bytes=0, used_bytes=None, free_bytes=None)
        return memory.value

    # --- MIG --------------------------------------------------------------------------------------------

    def _instances(self, owner: GPU, handle: Any) -> list[GPU]:
        """List the MIG instances of a GPU by their ids."""
        most = self._nvml.read("nvmlDeviceGetMaxMigDeviceCount", handle)
        if most.value is None:
            self._note(f"{owner.name} is in MIG mode and does not tell its instances: {most.reason}")
            return []
        found = []
        for index in range(int(most.value)):
            instance = self._nvml.read("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if instance.value is None:
                if instance.reason not in (Reason.NOT_FOUND, Reason.NOT_ON_MIG):  # a place without one
                    self._note(f"Instance {index} of {owner.name} cannot be opened: {instance.reason}")
            elif made := self._instance(owner, instance.value, index):
                found.append(made)
        found.sort(key=lambda one: (one.gpu_instance_id or 0, one.compute_instance_id or 0))
        return [replace(one, name=f"{owner.name}-mig{number}") for number, one in enumerate(found)]

    def _instance(self, owner: GPU, handle: Any, index: int) -> GPU | None:
        read = self._nvml.read
        uuid = read("nvmlDeviceGetUUID", handle)
        if uuid.value is None:
            self._note(f"Instance {index} of {owner.name} does not say who it is: {uuid.reason}")
            return None
        attributes = read("nvmlDeviceGetAttributes_v2", handle).value
        multiprocessors = int(attributes.multiprocessorCount) if attributes is not None else 0
        return GPU(
            uuid=uuid.value,
            name="",
            model=read("nvmlDeviceGetName", handle).value or f"{owner.model} MIG",
            memory_bytes=self._memory_of(f"Instance {index} of {owner.name}", handle).total_bytes,
            multiprocessors=multiprocessors,
            pci_bus_id=owner.pci_bus_id,
            driver=owner.driver,
            compute_capability=owner.compute_capability,
            compute_mode=owner.compute_mode,
            parent_uuid=self._parent_uuid(handle) or owner.uuid,
            parent_milli=_part(multiprocessors, owner.multiprocessors),
            gpu_instance_id=read("nvmlDeviceGetGpuInstanceId", handle).value,
            compute_instance_id=read("nvmlDeviceGetComputeInstanceId", handle).value,
        )

    def _parent_uuid(self, handle: Any) -> str:
        parent = self._nvml.read("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        if parent.value is None:
            return ""
        return self._nvml.read("nvmlDeviceGetUUID", parent.value).value or ""

    def _log(self, before: set[str]) -> None:
        for note in self.notes:
            if note not in before:
                logger.warning("%s", note)

    def _note(self, clause: str) -> None:
        self.notes = (*self.notes, f"{clause}.")


def _part(multiprocessors: int, of_all: int) -> int:
    """Return an instance's part of its GPU, thousandths rounded down; 0 when NVML does not tell both."""
    return min(1000, multiprocessors * 1000 // of_all) if of_all else 0
