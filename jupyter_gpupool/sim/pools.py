"""Pools that are simulated: written by hand, read from openb, or copied from the live one.

Rules of this module: nothing of a live pool is touched, only its snapshot is read; what cannot be read is
refused with what could have been written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.backends.emulated_models import MODELS, EmulatedModel, parse_emulation
from jupyter_gpupool.core.devices import Device, DeviceKind, Health
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import format_memory, parse_memory
from jupyter_gpupool.protocol.documents import DeviceDoc, PoolDoc
from jupyter_gpupool.sim.openb import NODES_FILE, node_rooms

#: Cores and bytes of main memory beside each GPU where a description does not say: those of openb's largest
#: group of nodes (96 cores and 768 GiB for 8 GPUs).
CORES_PER_GPU, MEMORY_PER_GPU = 12, 96 * 2**30
#: The most nodes that a description may have.
MOST_NODES = 10_000
#: Memory of models that only openb has, bytes; its own names G2 and G3 stand for undisclosed ones.
_OPENB_MEMORY = {
    "A10": 24 * 2**30,
    "G2": 32 * 2**30,
    "G3": 80 * 2**30,
    "P100": 16 * 2**30,
    "T4": 16 * 2**30,
    "V100M16": 16 * 2**30,
    "V100M32": 32 * 2**30,
}
_NODES = re.compile(r"(?:(\d{1,6})\s*\*\s*)?([^@*]+?)(?:\s*@\s*(\d{1,5})(?:\s*/\s*(\S+))?)?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class SimNode:
    """One node of a simulated pool.

    Attributes
    ----------
    id : str
        Its identity.
    devices : tuple of Device
        What it has: the processor first, then GPUs.
    """

    id: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SimPool:
    """The devices of a simulation.

    Attributes
    ----------
    name : str
        What a person calls it.
    nodes : tuple of SimNode
        In the order in which they join.
    """

    name: str
    nodes: tuple[SimNode, ...]

    def devices(self, kind: DeviceKind | None = None) -> list[Device]:
        """List the devices (of one kind)."""
        return [it for node in self.nodes for it in node.devices if kind in (None, it.kind)]

    @property
    def kind(self) -> DeviceKind:
        """The kind that utilisation is about: CUDA where there is any, else CPU."""
        return DeviceKind.CUDA if self.devices(DeviceKind.CUDA) else DeviceKind.CPU

    def describe(self) -> str:
        """Say in a line what is in it."""
        models = Counter(it.model for it in self.devices(self.kind))
        parts = ", ".join(f"{count} x {model}" for model, count in sorted(models.items()))
        return f"{parts} on {len(self.nodes)} node{'s' if len(self.nodes) > 1 else ''}"


def parse_pool(text: str) -> SimPool:
    """Read "4*8xA100-80GB@96/768GiB; 2*8xT4-16GB": how many nodes, of which GPUs, with cores and memory.

    Raises
    ------
    InvalidValue
        If it cannot be read; the message says how it is written.
    """
    nodes: list[SimNode] = []
    for part in (it.strip() for it in text.split(";") if it.strip()):
        match = _NODES.fullmatch(part)
        if match is None:
            raise InvalidValue(f"“{part[:60]}” is not a group of nodes.", hint=_forms())
        count = int(match[1] or 1)
        if not 1 <= count <= MOST_NODES or len(nodes) + count > MOST_NODES:
            raise InvalidValue(f"“{text[:60]}” is not between 1 and {MOST_NODES} nodes.", hint=_forms())
        gpus = parse_emulation(match[2])
        cores = int(match[3] or CORES_PER_GPU * len(gpus))
        memory = parse_memory(match[4]) if match[4] else MEMORY_PER_GPU * len(gpus)
        nodes += [_node(len(nodes) + at, gpus, cores, memory) for at in range(count)]
    if not nodes:
        raise InvalidValue("The pool has no nodes.", hint=_forms())
    return SimPool(name=text.strip(), nodes=tuple(nodes))


def _forms() -> str:
    return f"Write it as 4*8xA100-80GB@96/768GiB; 2*8xT4-16GB; models: {', '.join(MODELS)}."


def _node(number: int, gpus: Sequence[EmulatedModel], cores: int, memory_bytes: int) -> SimNode:
    node_id = f"node-{number:04}"
    devices = [_cpu(node_id, cores, memory_bytes)]
    for at, gpu in enumerate(gpus):
        devices.append(_gpu(node_id, at, gpu.name, gpu.memory_bytes, gpu.multiprocessors))
    return SimNode(id=node_id, devices=tuple(devices))


def _cpu(node_id: str, cores: int, memory_bytes: int) -> Device:
    return Device(
        id=f"CPU-{node_id}",
        node_id=node_id,
        name="cpu",
        kind=DeviceKind.CPU,
        model=f"{cores} cores, {format_memory(memory_bytes)}",
        memory_bytes=memory_bytes,
        compute_units=max(1, cores),
    )


def _gpu(node_id: str, at: int, model: str, memory_bytes: int, units: int) -> Device:
    return Device(
        id=f"GPU-{node_id}-{at}",
        node_id=node_id,
        name=f"cuda{at}",
        kind=DeviceKind.CUDA,
        model=model,
        memory_bytes=memory_bytes,
        compute_units=units,
    )


def openb_pool(folder: Path) -> SimPool:
    """Read the nodes of the openb traces.

    Raises
    ------
    InvalidValue
        If the list cannot be read.
    """
    nodes = []
    for node_id, room in node_rooms(folder / NODES_FILE):
        memory = _OPENB_MEMORY.get(room.model, 16 * 2**30)
        devices = [_cpu(node_id, room.cpu_milli // 1000, room.memory_bytes)]
        devices += [_gpu(node_id, at, room.model, memory, 80) for at in range(len(room.devices))]
        nodes.append(SimNode(id=node_id, devices=tuple(devices)))
    return SimPool(name="openb", nodes=tuple(nodes))


def live_pool(doc: PoolDoc) -> SimPool:
    """Copy the devices of a live pool that are offered, or would be if they were healthy.

    Raises
    ------
    InvalidValue
        If it has none.
    """
    by_node: dict[str, list[Device]] = {}
    for it in doc.devices:
        by_node.setdefault(it.node_id, []).append(_copied(it))
    if not by_node:
        raise InvalidValue("The live pool has no devices.", hint="Describe a pool with --pool.")
    nodes = [SimNode(id=node_id, devices=tuple(_real(found))) for node_id, found in sorted(by_node.items())]
    return SimPool(name="the live pool", nodes=tuple(nodes))


def _copied(it: DeviceDoc) -> Device:
    return Device(
        id=it.id,
        node_id=it.node_id,
        name=it.name,
        kind=it.kind,
        model=it.model,
        memory_bytes=it.memory_bytes,
        compute_units=it.compute_units,
        emulated=it.emulated,
        health=Health.HEALTHY,
        parent_id=it.parent_id,
        parent_milli=it.parent_milli,
        whole_only=it.whole_only,
    )


def _real(devices: Iterable[Device]) -> list[Device]:
    """Return the processor first, as everywhere."""
    return sorted(devices, key=lambda it: (it.kind is not DeviceKind.CPU, it.name))
