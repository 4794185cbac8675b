"""Arrays of JAX and of CuPy, through their copies on the host.

Rules of this module: one is put on the device that it was on, where that is there; where it is not that is
said. Arrays of JAX never change, so each has its memory to itself; one of CuPy that looked at the memory of
another one says that it no longer does.
"""

from __future__ import annotations

import importlib
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.model import FindingKind
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_MOVE = "Move it where that matters."


def _jax(value: Any, capturing: Capturing) -> Reduced:
    if value.is_deleted():
        return capturing.lose(value, "its memory was donated or deleted", "Compute it again.")
    if not value.is_fully_addressable:
        return capturing.lose(value, "parts of it are in other processes", "Gather it first.")
    import numpy as np

    devices = sorted(value.devices(), key=lambda device: device.id)
    if len(devices) > 1:
        reason = f"it was spread over {len(devices)} devices, and will be on {_label(devices[0])} whole"
        capturing.note(value, FindingKind.CHANGED, reason, "Shard it again with jax.device_put.")
    host = np.asarray(value).copy()  # a look at its memory would lead back to the array
    capturing.roots.keep(host)
    return make_jax, (host, _label(devices[0]), bool(value.weak_type))


def _label(device: Any) -> str:
    kind = "cuda" if device.platform == "gpu" else device.platform
    return f"{kind}:{device.id}"


def make_jax(host: Any, label: str, weak: bool) -> Any:
    """Make an array of JAX from its copy on the host."""
    jax: Any = importlib.import_module("jax")

    wanted = current().regions.wished(label)
    kind = wanted.partition(":")[0]  # "cpu" is the first of them
    there = [it for it in jax.devices("cpu" if kind == "cpu" else None) if _label(it).startswith(f"{kind}:")]
    device = next((it for it in there if wanted in (kind, _label(it))), None)
    place = device if device is not None else jax.devices()[0]
    made = _put(jax, host, place)
    if weak:
        made.aval = made.aval.update(weak_type=True)
    if _label(place) != label:
        current().note(made, FindingKind.CHANGED, f"it was on {label}, and is on {_label(place)} now", _MOVE)
    return made


def _put(jax: Any, host: Any, place: Any) -> Any:
    """Put a copy on a device, as wide as it was: JAX makes 64 bits to 32 unless it is told not to."""
    if host.dtype.itemsize < 8 or jax.config.jax_enable_x64:
        return jax.device_put(host.copy(), place)
    jax.config.update("jax_enable_x64", True)
    try:
        return jax.device_put(host.copy(), place)
    finally:
        jax.config.update("jax_enable_x64", False)


def _jax_key(value: Any, capturing: Capturing) -> Reduced:
    jax: Any = importlib.import_module("jax")

    return make_jax_key, (jax.random.key_data(value), str(jax.random.key_impl(value)))


def make_jax_key(data: Any, kind: str) -> Any:
    """Make a key of JAX's random numbers."""
    jax: Any = importlib.import_module("jax")

    return jax.random.wrap_key_data(data, impl=kind)


def _cupy(value: Any, capturing: Capturing) -> Reduced:
    if value.base is not None:
        reason = "it looked at the memory of another array, and will have its own"
        capturing.note(value, FindingKind.CHANGED, reason, "Make it from that array again.")
    host = value.get(order="A")
    capturing.roots.keep(host)
    return make_cupy, (host, f"cuda:{value.device.id}")


def make_cupy(host: Any, label: str) -> Any:
    """Make an array of CuPy from its copy on the host."""
    cupy: Any = importlib.import_module("cupy")

    wanted = current().regions.wished(label)
    kind, _, number = wanted.partition(":")
    count = cupy.cuda.runtime.getDeviceCount()
    if kind != "cuda" or not count:
        reason = f"it was on {label}, and CuPy has no such place here"
        return current().lost("cupy.ndarray", reason, "Restore it where there is a CUDA device.")
    index = int(number or 0) if int(number or 0) < count else 0
    with cupy.cuda.Device(index):
        made = cupy.array(host, order="A")
    if f"cuda:{index}" != label:
        current().note(made, FindingKind.CHANGED, f"it was on {label}, and is on cuda:{index} now", _MOVE)
    return made


RECIPES = (
    Recipe(module="jax._src.array", qualname="ArrayImpl", reduce=_jax),
    Recipe(
        module="jax._src.prng", qualname="PRNGKeyArray", reduce=_jax_key, subclasses=True, regardless=True
    ),
    Recipe(module="cupy", qualname="ndarray", reduce=_cupy),
)
