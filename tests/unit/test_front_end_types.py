"""The front end's types are written by hand: they say what the protocol says."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import LeaseState, Priority, Resource, Strength, Verified
from jupyter_gpupool.protocol import documents
from jupyter_gpupool.server.kernels import KernelDoc

_TYPES = (Path(__file__).parents[2] / "labextension" / "src" / "types.ts").read_text(encoding="utf-8")
#: Interface -> structure, and the fields that are not shown in a browser.
_STRUCTURES: dict[str, tuple[type[msgspec.Struct], set[str]]] = {
    "IShare": (documents.ShareDoc, set()),
    "IIsolation": (documents.IsolationDoc, set()),
    "IProcess": (documents.ProcessDoc, set()),
    "IHolder": (documents.HolderDoc, set()),
    "ILease": (documents.LeaseDoc, {"attach", "parts"}),
    "IReadings": (documents.ReadingsDoc, set()),
    "IDevice": (documents.DeviceDoc, set()),
    "INode": (documents.NodeDoc, set()),
    "IQueueEntry": (documents.QueueEntryDoc, set()),
    "IPool": (documents.PoolDoc, set()),
    "ISnapshot": (documents.SnapshotDoc, set()),
    "IKernelEnvironment": (KernelDoc, set()),
}
_ENUMS: list[type[Enum]] = [DeviceKind, Health, LeaseState, Priority, Resource, Strength, Verified]


@pytest.mark.parametrize("interface", _STRUCTURES)
def test_an_interface_has_the_fields_of_its_structure(interface: str) -> None:
    structure, private = _STRUCTURES[interface]
    body = re.search(rf"export interface {interface} {{(.*?)^}}", _TYPES, re.S | re.M)
    assert body is not None
    assert set(re.findall(r"readonly (\w+):", body[1])) == set(structure.__struct_fields__) - private


@pytest.mark.parametrize("enum", _ENUMS)
def test_a_union_has_the_values_of_its_enum(enum: type[Enum]) -> None:
    union = re.search(rf"export type {enum.__name__} =\s*(.*?);", _TYPES, re.S)
    assert union is not None
    assert re.findall(r"'([^']+)'", union[1]) == [member.value for member in enum]
