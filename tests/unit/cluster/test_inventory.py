"""Which part of a node its holders' shares are."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpupool.cluster.inventory import Inventory
from jupyter_gpupool.cluster.locks import DeviceLocks
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol.messages import DeviceReport, ShareOrder
from tests.support.desk_bench import PacedBackend


class _Devices(PacedBackend):
    """A node with these devices, of which some are proved."""

    def __init__(self, *devices: DeviceReport) -> None:
        super().__init__()
        self.devices = list(devices)
        self.asked: list[list[str]] = []

    def discover(self) -> list[DeviceReport]:
        return self.devices

    def prove(self, device_ids: object) -> None:
        assert isinstance(device_ids, list)
        self.asked.append(device_ids)


def _device(name: str, kind: DeviceKind = DeviceKind.CUDA, **fields: object) -> DeviceReport:
    return DeviceReport(
        id=name,
        name=name,
        kind=kind,
        model="test",
        memory_bytes=100,
        compute_units=1,
        **fields,  # type: ignore[arg-type]
    )


def _inventory(tmp_path: Path, *devices: DeviceReport) -> Inventory:
    inventory = Inventory([_Devices(*devices)], DeviceLocks(tmp_path / "lock"))
    inventory.refresh()
    return inventory


def _share(device: str, milli: int = 500) -> ShareOrder:
    return ShareOrder(device_id=device, compute_milli=milli, memory_bytes=10)


GPUS = (
    _device("cpu", DeviceKind.CPU),
    _device("one"),
    _device("two"),
    _device("mig0", parent_id="three", parent_milli=250),
    _device("mig1", parent_id="three", parent_milli=500),
    _device("four", emulated=True),
)


@pytest.mark.parametrize(
    ("shares", "part"),
    [
        ([_share("one")], 0.5 / 3),
        ([_share("one", 1000), _share("two", 1000)], 2 / 3),
        ([_share("mig0", 1000)], 0.25 / 3),
        ([_share("cpu")], None),
        ([_share("one"), _share("cpu")], None),
        ([_share("four")], None),
        ([_share("gone")], None),
        ([], None),
    ],
)
def test_a_share_is_its_part_of_all_gpus_and_nothing_where_the_node_itself_is_shared(
    tmp_path: Path, shares: list[ShareOrder], part: float | None
) -> None:
    assert _inventory(tmp_path, *GPUS).part(shares) == part


def test_devices_that_are_ours_and_real_are_proved(tmp_path: Path) -> None:
    backend = _Devices(*GPUS)
    inventory = Inventory([backend], DeviceLocks(tmp_path / "lock"))
    inventory.refresh()
    other = Inventory([late := _Devices(*GPUS)], DeviceLocks(tmp_path / "lock"))
    other.refresh()
    inventory.prove()
    other.prove()
    assert backend.asked == [["cpu", "one", "two", "mig0", "mig1"]]
    assert late.asked == [[]]
    inventory.close()
    other.close()
