"""PyTorch in name only, with one GPU: what of `torch.cuda` has to do with a memory cap."""

from __future__ import annotations

import types

__version__ = "2.13.0"
_TOTAL = 80 * 2**30


class _Cuda(types.ModuleType):
    """`torch.cuda`: it initialises itself at the first call that needs it, then runs what was queued."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self._initialized = False
        self._initializing = False
        self._queued_calls: list = []
        self.fractions = {0: 1.0}
        self.uuid = "1a2b3c4d-0000-0000-0000-000000000000"
        self.broken = False

    def is_initialized(self) -> bool:
        return self._initialized

    def _lazy_call(self, callable) -> None:  # noqa: A002 - torch's name
        if self._initialized:
            callable()
        else:
            self._queued_calls.append(callable)

    def init(self) -> None:
        if self._initialized or self._initializing:
            return
        self._initializing = True
        for call in self._queued_calls:
            call()
        self._initialized, self._initializing = True, False

    def device_count(self) -> int:
        return 1

    def get_device_properties(self, index: int):
        self.init()
        return types.SimpleNamespace(uuid=self.uuid, total_memory=_TOTAL)

    def set_per_process_memory_fraction(self, fraction: float, device: int = 0) -> None:
        self.init()
        if self.broken:
            raise RuntimeError("CUDA error: something is wrong\nwith details")
        self.fractions[device] = fraction

    def get_per_process_memory_fraction(self, device: int = 0) -> float:
        self.init()
        return self.fractions[device]


cuda = _Cuda()
