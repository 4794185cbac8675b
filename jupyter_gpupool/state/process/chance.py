"""Streams of random numbers that belong to the process: they go on where they were.

Rule of this module: a library's stream is saved if the library is there, and put back if it can be imported.
"""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_NAME = "random numbers"


def _take(tell: Tell) -> dict[str, Any]:
    state: dict[str, Any] = {"random": random.getstate()}
    if "numpy.random.mtrand" in sys.modules:
        state["numpy"] = sys.modules["numpy.random.mtrand"].get_state(legacy=False)
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        state["torch"] = _bytes(torch.get_rng_state())
        cuda = torch.cuda
        if cuda.is_available() and cuda.is_initialized():
            state["cuda"] = [_bytes(one) for one in cuda.get_rng_state_all()]
    return state


def _bytes(tensor: Any) -> bytes:
    return bytes(tensor.numpy().tobytes())


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    before = random.getstate()
    changes.make("random", lambda: random.setstate(value["random"]), lambda: random.setstate(before))
    if "numpy" in value:
        _put_numpy(value["numpy"], changes)
    if "torch" in value:
        _put_torch(value, changes)
    return changes.undo


def _module(name: str, changes: Changes) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        changes.failed(name, f"{name} cannot be imported here: {error}")
        return None


def _put_numpy(state: Any, changes: Changes) -> None:
    numpy_random = _module("numpy.random", changes)
    if numpy_random is not None:
        before = numpy_random.get_state(legacy=False)
        changes.make(
            "numpy.random",
            lambda: numpy_random.set_state(state),
            lambda: numpy_random.set_state(before),
        )


def _put_torch(value: dict[str, Any], changes: Changes) -> None:
    torch = _module("torch", changes)
    if torch is None:
        return

    def tensor(content: bytes) -> Any:
        return torch.frombuffer(bytearray(content), dtype=torch.uint8).clone()

    before = torch.get_rng_state()
    changes.make(
        "torch", lambda: torch.set_rng_state(tensor(value["torch"])), lambda: torch.set_rng_state(before)
    )
    if not value.get("cuda"):
        return
    if not torch.cuda.is_available():
        changes.failed("torch.cuda", "there is no CUDA device here, so its streams begin anew")
        return
    for number, state in enumerate(value["cuda"][: torch.cuda.device_count()]):
        _put_cuda(torch.cuda, number, tensor(state), changes)


def _put_cuda(cuda: Any, number: int, state: Any, changes: Changes) -> None:
    before = cuda.get_rng_state(number)
    changes.make(
        f"torch.cuda (device {number})",
        lambda: cuda.set_rng_state(state, number),
        lambda: cuda.set_rng_state(before, number),
    )


SECTION = Section(name=_NAME, take=_take, put=_put)
