"""TensorFlow in name only: logical devices can be configured until the device is used."""

from __future__ import annotations

import types

__version__ = "2.21.0"


class _Config:
    def __init__(self) -> None:
        self.logical: dict = {}
        self.growth: dict = {}
        self.in_use = False
        self.experimental = types.SimpleNamespace(set_memory_growth=self._set_memory_growth)

    def list_physical_devices(self, kind: str) -> list[str]:
        return ["/physical_device:GPU:0"] if kind == "GPU" else []

    @staticmethod
    def LogicalDeviceConfiguration(memory_limit=None):  # noqa: N802 - TensorFlow's name
        return types.SimpleNamespace(memory_limit=memory_limit)

    def get_logical_device_configuration(self, device: str):
        return self.logical.get(device)

    def set_logical_device_configuration(self, device: str, logical: list) -> None:
        if any(each.memory_limit is None for each in logical):
            raise ValueError("Setting memory limit is required for GPU virtual devices")
        if self.in_use:
            raise RuntimeError("Virtual devices cannot be modified after being initialized")
        self.logical[device] = logical

    def _set_memory_growth(self, device: str, enable: bool) -> None:
        if device in self.logical:
            raise ValueError("Cannot set memory growth on device when virtual devices configured")
        self.growth[device] = enable


config = _Config()
