"""A GPU or a MIG instance, as NVML describes it: what does not change while it is there.

Rule of this module: identity is the UUID; numbers come from NVML, never from a profile's name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class GPU:
    """One device.

    Attributes
    ----------
    uuid : str
        ``GPU-…`` or ``MIG-…``.
    name : str
        Short name in its node, in PCI order: ``cuda0``, ``cuda0-mig1``.
    model : str
        What NVIDIA calls it; of a MIG instance with the profile.
    memory_bytes : int
        All its memory, bytes; system memory where ``unified``.
    multiprocessors : int
        Streaming multiprocessors; 0 when NVML does not say.
    pci_bus_id : str
        ``00000000:3B:00.0`` of the GPU.
    driver : str
        Version of the driver, ``615.71``.
    compute_capability : tuple of int
        ``(9, 0)``; ``(0, 0)`` when NVML does not say.
    compute_mode : str
        ``default``, ``exclusive_process``, ``prohibited`` or empty when NVML does not say.
    unified : bool
        True where it has no memory of its own (GB10 and other SoCs).
    parent_uuid : str
        Of a MIG instance, its GPU; else empty.
    parent_milli : int
        Of a MIG instance, its part of the GPU's multiprocessors, thousandths; else 1000.
    gpu_instance_id, compute_instance_id : int or None
        Of a MIG instance.
    mig_enabled : bool
        True for a GPU in MIG mode: itself it cannot be leased, only its instances.
    """

    uuid: str
    name: str
    model: str
    memory_bytes: int
    multiprocessors: int
    pci_bus_id: str
    driver: str
    compute_capability: tuple[int, int] = (0, 0)
    compute_mode: str = ""
    unified: bool = False
    parent_uuid: str = ""
    parent_milli: int = 1000
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    mig_enabled: bool = False

    @property
    def is_mig(self) -> bool:
        """True for a MIG instance."""
        return bool(self.parent_uuid)
