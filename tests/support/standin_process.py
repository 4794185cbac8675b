"""A process whose torch has one more device: it saves tensors of it, and makes them again."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from tests.support.memory_trip import save


def registered(library: str) -> None:
    """Give torch the device ``standin``."""
    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    torch.utils.rename_privateuse1_backend("standin")
    module: Any = types.ModuleType("torch.standin")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    torch._register_device_module("standin", module)


def main(library: str) -> None:
    """Save tensors of the device, and make them again there and on the CPU."""
    registered(library)
    whole = torch.arange(3_000_000.0).to("standin")
    saved = save(whole=whole, part=whole[5:9], weight=torch.nn.Parameter(whole[:100].view(10, 10)))
    assert [(root.device, root.nbytes) for root in saved.details.roots] == [("standin:0", 12_000_000)]
    there = saved.back()
    assert {str(made.device) for made in there.values()} == {"standin:0"}
    assert torch.equal(there["whole"].cpu(), whole.cpu())
    assert there["part"].untyped_storage() is there["whole"].untyped_storage()
    assert saved.loaded is not None
    assert not saved.loaded.notes
    here = saved.back(place=lambda device: "cpu")
    here["whole"][5] = -1
    assert here["part"].tolist() == [-1, 6, 7, 8]
    assert type(here["weight"]) is torch.nn.Parameter
    assert {reason for _, reason in saved.loaded.notes} == {"it was on standin:0, and is on cpu now"}


if __name__ == "__main__":
    main(sys.argv[1])
