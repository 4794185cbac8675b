"""RMM in name only: one memory resource for each device."""

from __future__ import annotations

import types

__version__ = "26.8.0"


class _LimitingResourceAdaptor:
    def __init__(self, upstream, allocation_limit: int) -> None:
        self.upstream_mr, self.allocation_limit = upstream, allocation_limit


class _Memory(types.ModuleType):
    """`rmm.mr`."""

    LimitingResourceAdaptor = _LimitingResourceAdaptor

    def __init__(self) -> None:
        super().__init__("rmm.mr")
        self.resources: dict = {0: "the CUDA resource"}

    def get_per_device_resource(self, device: int):
        return self.resources[device]

    def set_per_device_resource(self, device: int, resource) -> None:
        self.resources[device] = resource


mr = _Memory()
