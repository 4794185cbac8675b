"""What a request means and takes: which devices, and how much of a node.

Rule of this module: it compares words and counts, one request and one device or node at a time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.leases import Want
from jupyter_gpupool.core.placement.rooms import Ask


class FieldKey(NamedTuple):
    """Which devices a field has.

    Attributes
    ----------
    kind : DeviceKind or None
        Their kind; None for any.
    name : str
        Their name or id, or that of the GPU that they are part of; empty for any.
    emulated : bool
        Whether they are emulated.
    sized : bool
        Whether instances belong to it of which it is unknown how large a part they are.
    degraded : bool
        Whether those count that are not well: they are used last.
    model : str
        Words of their model's name; empty for any.
    """

    kind: DeviceKind | None
    name: str
    emulated: bool
    sized: bool
    degraded: bool
    model: str = ""

    def has(self, device: Device) -> bool:
        """Whether a device belongs to the field."""
        if device.emulated is not self.emulated or (self.kind is not None and device.kind is not self.kind):
            return False
        if not device.parent_milli and device.whole_only and not self.sized:
            return False
        if self.model and not is_model(device.model, self.model):
            return False
        return not self.name or is_named(device, self.name)


def is_named(device: Device, name: str) -> bool:
    """Whether a request means a device by its name or id, or by those of the GPU that it is part of."""
    if name in (device.name, device.id):
        return True
    return bool(device.parent_id) and name in (device.parent_id, device.name.rpartition("-")[0])


@lru_cache(maxsize=4096)
def is_model(model: str, words: str) -> bool:
    """Whether a model is meant by words of its name: "a100 80gb" means "NVIDIA A100-SXM4-80GB".

    Several of them are separated by a "|": any will do.
    """
    there = set(_words(model))
    return any(there.issuperset(_words(one)) for one in words.split("|"))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9.]+", name.lower())


class Kept(NamedTuple):
    """What of a device others may take while the rest is kept for a request.

    Attributes
    ----------
    lease_id : str
        The request.
    compute_milli, memory_bytes : int
        What others may take of it.
    """

    lease_id: str
    compute_milli: int
    memory_bytes: int


def ask_of(want: Want, *, devices: int | None = None, models: tuple[str, ...] = ()) -> Ask:
    """Write what a request takes of one node; of so many devices unless all of them.

    Parameters
    ----------
    want : Want
        The request.
    devices : int or None
        Of how many devices.
    models : tuple of str
        The models that it means; empty for any.
    """
    count = want.count if devices is None else devices
    cpu_milli, host_bytes = want.host_cpu_milli, want.host_memory_bytes
    if count < want.count:
        cpu_milli, host_bytes = host_part(cpu_milli, count, want), host_part(host_bytes, count, want)
    return Ask(cpu_milli, host_bytes, count, want.compute_milli, models, want.memory_bytes)


def host_part(amount: int, devices: int, want: Want) -> int:
    """Return what of an amount that is asked for beside all devices falls to some of them, rounded up."""
    return devices * -(-amount // want.count)
