"""How each framework is told its memory cap, through its own API.

Rule of this module: one class for each framework, with one method: `put` makes the caps so, and no caps takes
them off again. What it may raise is the framework's own; `caps` turns that into a sentence.
"""

from __future__ import annotations

import abc
import functools
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.frameworks import TORCH_CONFIG, TORCH_CONFIG_NEW, TORCH_FRACTION
from jupyter_gpupool.protocol.messages import DeviceCap

_MIB = 2**20
#: What JAX calls the platform of NVIDIA's GPUs.
_JAX_ON_GPUS = frozenset({"cuda", "gpu"})
#: Fractions that differ by less are the same, written with fewer digits.
_SAME_FRACTION = 0.001


def visible_index(device_id: str, uuids: Sequence[str]) -> int | None:
    """Return the number under which this process sees a device; None when it does not see it.

    Parameters
    ----------
    device_id : str
        The device's UUID.
    uuids : sequence of str
        UUIDs of the devices that the framework sees, in its order; empty strings where it does not say.
    """
    bare = _bare(device_id)
    if any(uuids):
        found = next((index for index, uuid in enumerate(uuids) if uuid and bare == _bare(uuid)), None)
        if found is not None or all(uuids):
            return found
    visible = [_bare(entry) for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    found = next((index for index, entry in enumerate(visible) if entry and bare.startswith(entry)), None)
    if found is not None:
        return found
    return 0 if len(uuids) == 1 else None


def _bare(uuid: str) -> str:
    """Return a UUID without what says whose it is, as different libraries write it."""
    text = uuid.strip().lower()
    return text.removeprefix("gpu-").removeprefix("mig-")


def indexed(wanted: Iterable[DeviceCap], uuids: Sequence[str]) -> dict[int, DeviceCap]:
    """Return the caps by the numbers under which this process sees their devices."""
    found = ((visible_index(cap.device_id, uuids), cap) for cap in wanted)
    return {index: cap for index, cap in found if index is not None}


def refusal(title: str, error: Exception) -> str:
    """Say that a framework is another than we know, and failed at its cap."""
    said = (str(error).splitlines() or [""])[0][:200]
    return (
        f"{title} did not take its memory cap ({type(error).__name__}: {said}); the watch on the device's "
        "memory still works."
    )


class FrameworkCap(abc.ABC):
    """One framework's cap in this process."""

    #: What people call it.
    title: str

    def __init__(self) -> None:
        #: What it did not take, found later than `put`; empty when there is nothing.
        self.problem = ""

    @abc.abstractmethod
    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """Make these caps so, and no others; none takes them off."""


class TorchCap(FrameworkCap):
    """``set_per_process_memory_fraction``: it would initialise CUDA, so torch does it when it does that."""

    title = "torch"

    def __init__(self) -> None:
        super().__init__()
        self._wanted: tuple[DeviceCap, ...] = ()
        self._before: dict[int, float] = {}
        self._queued = False

    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """Set the fractions now if CUDA is initialised, else as the first thing after it is."""
        self._wanted, self.problem = wanted, ""
        if module.cuda.is_initialized():
            self._set(module.cuda)
        elif wanted and not self._queued:
            module.cuda._lazy_call(self._when_initialised)
            self._queued = True

    def _when_initialised(self) -> None:
        """Do it while torch initialises CUDA: an error here would break the user's call, so it is kept."""
        try:
            self._set(sys.modules["torch"].cuda)
        except Exception as error:  # torch's own, of any kind
            self.problem = refusal(self.title, error)

    def _set(self, cuda: Any) -> None:
        properties = [cuda.get_device_properties(index) for index in range(cuda.device_count())]
        caps = indexed(self._wanted, [str(getattr(it, "uuid", "")) for it in properties])
        for index, cap in caps.items():
            before = self._before.setdefault(index, _torch_fraction(cuda, index, cap))
            fraction = min(1.0, cap.memory_bytes / (properties[index].total_memory or cap.total_bytes))
            cuda.set_per_process_memory_fraction(min(before, fraction), index)
        for index in self._before.keys() - caps.keys():
            cuda.set_per_process_memory_fraction(self._before.pop(index), index)


def _torch_fraction(cuda: Any, index: int, cap: DeviceCap) -> float:
    """Return the fraction that the user had set before; 1 where our variable set it, or nobody."""
    ask = getattr(cuda, "get_per_process_memory_fraction", None)
    now = 1.0 if ask is None else float(ask(index))
    named = any(TORCH_FRACTION in os.environ.get(name, "") for name in (TORCH_CONFIG, TORCH_CONFIG_NEW))
    ours = named and abs(now - cap.memory_bytes / cap.total_bytes) < _SAME_FRACTION
    return 1.0 if ours else now


class TensorFlowCap(FrameworkCap):
    """A logical device with a memory limit; TensorFlow takes one only before it uses the device."""

    title = "TensorFlow"

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, Any] = {}
        self._capped: list[Any] = []
        self._set_memory_growth: Any = None

    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """Configure each device's one logical device."""
        self.problem = ""
        config = module.config
        devices = config.list_physical_devices("GPU")
        caps = indexed(wanted, [""] * len(devices))
        self._capped = [devices[index] for index in caps]
        for index, cap in caps.items():
            self._before.setdefault(index, config.get_logical_device_configuration(devices[index]))
            limit = config.LogicalDeviceConfiguration(memory_limit=cap.memory_bytes // _MIB)
            self._configure(config, devices[index], [limit], cap)
        for index in self._before.keys() - caps.keys():
            # no logical device is one with all memory
            self._configure(config, devices[index], self._before.pop(index) or [], None)
        self._let_memory_grow(config.experimental)

    def _configure(self, config: Any, device: Any, logical: list[Any], cap: DeviceCap | None) -> None:
        try:
            config.set_logical_device_configuration(device, logical)
        except RuntimeError:  # it is in use
            to = f"be told its cap of {format_memory(cap.memory_bytes)}" if cap else "be freed of its cap"
            self.problem = (
                f"TensorFlow uses its GPU already and can no longer {to}; it follows after a kernel restart."
            )

    def _let_memory_grow(self, experimental: Any) -> None:
        """Accept ``set_memory_growth`` for capped devices, as many notebooks call it.

        TensorFlow raises an error where a limit stands; there memory grows already, by
        ``TF_FORCE_GPU_ALLOW_GROWTH``.
        """
        if self._capped and self._set_memory_growth is None:
            original = self._set_memory_growth = experimental.set_memory_growth

            def set_memory_growth(device: Any, enable: bool) -> Any:
                return None if device in self._capped else original(device, enable)

            experimental.set_memory_growth = set_memory_growth
        elif not self._capped and self._set_memory_growth is not None:
            experimental.set_memory_growth, self._set_memory_growth = self._set_memory_growth, None


class CuPyCap(FrameworkCap):
    """The limit of the default memory pool, kept for each device."""

    title = "CuPy"

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, int] = {}

    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """Set the pool's limit; a lower one of the user's own stays."""
        pool = module.get_default_memory_pool()
        caps = indexed(wanted, [""])
        for index, cap in caps.items():
            if index not in self._before:
                now = self._on(module, index, pool.get_limit)
                # where it is the cap, the pool has read it in our variable
                self._before[index] = 0 if now == cap.memory_bytes else now
            size = min(self._before[index] or cap.memory_bytes, cap.memory_bytes)
            self._on(module, index, functools.partial(pool.set_limit, size=size))
        for index in self._before.keys() - caps.keys():
            before = self._before.pop(index)
            self._on(module, index, functools.partial(pool.set_limit, size=before))

    def _on(self, module: Any, index: int, do: Any) -> Any:
        """Do something for a device; the first is the current one, and naming it would initialise CUDA."""
        if index == 0:
            return do()
        with module.cuda.Device(index):
            return do()


class RMMCap(FrameworkCap):
    """A limiting adaptor over the device's memory resource."""

    title = "RMM"

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, Any] = {}

    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """Put an adaptor over what was the resource before."""
        memory = module.mr
        caps = indexed(wanted, [""])
        for index, cap in caps.items():
            if index not in self._before:
                self._before[index] = memory.get_per_device_resource(index)
            limited = memory.LimitingResourceAdaptor(self._before[index], cap.memory_bytes)
            memory.set_per_device_resource(index, limited)
        for index in self._before.keys() - caps.keys():
            memory.set_per_device_resource(index, self._before.pop(index))


class JAXCap(FrameworkCap):
    """JAX reads its environment when it takes the device: all that can be done is to say it is too late."""

    title = "JAX"

    def __init__(self) -> None:
        super().__init__()
        self._put: tuple[DeviceCap, ...] = ()

    def put(self, module: Any, wanted: tuple[DeviceCap, ...]) -> None:
        """See whether JAX has taken its memory already, under other caps than these."""
        self.problem = ""
        taken = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None) or {}
        if wanted and wanted != self._put and _JAX_ON_GPUS & set(taken):
            total = format_memory(sum(cap.memory_bytes for cap in wanted))
            self.problem = (
                f"JAX took its part of the GPU's memory before it could be told of {total}; it follows after "
                "a kernel restart."
            )
        elif wanted:
            self._put = wanted


#: Module -> how it is told.
CAPS: dict[str, type[FrameworkCap]] = {
    "torch": TorchCap,
    "tensorflow": TensorFlowCap,
    "cupy": CuPyCap,
    "rmm": RMMCap,
    "jax": JAXCap,
}
