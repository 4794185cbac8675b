"""The front end's types are written by hand: they say what the protocol says."""

from __future__ import annotations

import gzip
import os
import re
from enum import Enum
from pathlib import Path

import msgspec
import pytest

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import LeaseState, Priority, Resource, Strength, Verified
from jupyter_gpupool.protocol import documents
from jupyter_gpupool.server.history import HistoryDoc
from jupyter_gpupool.server.kernels import KernelDoc

_TYPES = (Path(__file__).parents[2] / "labextension" / "src" / "types.ts").read_text(encoding="utf-8")
#: All scripts of the front end together, gzipped, bytes.
MOST_BYTES = 300_000
#: Interface -> structure, and the fields that are not shown in a browser.
_STRUCTURES: dict[str, tuple[type[msgspec.Struct], set[str]]] = {
    "IShare": (documents.ShareDoc, set()),
    "IIsolation": (documents.IsolationDoc, set()),
    "IProcess": (documents.ProcessDoc, set()),
    "IHolder": (documents.HolderDoc, set()),
    "ILease": (documents.LeaseDoc, {"attach"}),
    "IPart": (documents.PartDoc, set()),
    "IReadings": (documents.ReadingsDoc, set()),
    "IDevice": (documents.DeviceDoc, set()),
    "INode": (documents.NodeDoc, {"version"}),  # for `doctor`
    "IQueueEntry": (documents.QueueEntryDoc, set()),
    "IPool": (documents.PoolDoc, set()),
    "ISnapshot": (documents.SnapshotDoc, set()),
    "ISpread": (documents.SpreadDoc, set()),
    "IBlocker": (documents.BlockerDoc, {"state", "held_seconds"}),
    "IWhy": (
        documents.WhyDoc,
        {
            "waits_for",
            "cause",
            "position",
            "ahead",
            "known",
            "estimates_made",
            "estimates_right",
            "kept",
            "moves",
        },
    ),
    "IQuota": (documents.QuotaDoc, set()),
    "IHeld": (documents.HeldDoc, set()),
    "IUsage": (documents.UsageDoc, set()),
    "IHistory": (HistoryDoc, set()),
    "IKernelEnvironment": (KernelDoc, set()),
}
_ENUMS: list[type[Enum]] = [
    *(DeviceKind, Health, LeaseState, Priority, Resource, Strength, Verified),
    documents.NodeState,
]


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


def test_what_a_page_can_load_of_the_front_end_is_small() -> None:
    static = Path(__file__).parents[2] / "jupyter_gpupool" / "labextension" / "static"
    loaded = [gzip.compress(path.read_bytes()) for path in static.glob("*.js")]
    if not loaded and not os.environ.get("CI"):
        pytest.skip("the front end is not built: npm run build in labextension/")
    assert 0 < sum(map(len, loaded)) < MOST_BYTES


def test_every_command_of_the_settings_is_one_of_the_front_ends() -> None:
    folder = Path(__file__).parents[2] / "labextension"
    schema = (folder / "schema" / "manager.json").read_text(encoding="utf-8")
    tokens = (folder / "src" / "tokens.ts").read_text(encoding="utf-8")
    assert set(re.findall(r'"command": "([^"]+)"', schema)) <= set(re.findall(r"'(gpupool:[^']+)'", tokens))
