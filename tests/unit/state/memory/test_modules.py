"""Modules that torch itself refuses to pickle, and small things beside arrays, come back."""

from __future__ import annotations

import io
from typing import Any

import pytest

from jupyter_gpupool.state.model import FindingKind
from tests.support.memory_trip import save, trip

torch: Any = pytest.importorskip("torch")
np: Any = pytest.importorskip("numpy")


class Symmetric(torch.nn.Module):  # type: ignore[misc]
    """Makes a square matrix symmetric."""

    def forward(self, weight: Any) -> Any:
        """Return it."""
        return weight + weight.T


def test_parameters_that_are_computed_are_computed_again() -> None:
    linear = torch.nn.Linear(3, 3)
    torch.nn.utils.parametrize.register_parametrization(linear, "weight", Symmetric())
    original = linear.parametrizations.weight.original
    back = trip(linear=linear, original=original)
    assert torch.equal(back["linear"].weight, linear.weight)
    with torch.no_grad():
        back["original"].zero_()
    assert not back["linear"].weight.any()
    assert isinstance(back["linear"], torch.nn.Linear)


@pytest.mark.slow  # the compiler of torch is large
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:.*torch.jit:FutureWarning")
def test_a_compiled_module_keeps_its_own_parameters() -> None:
    module = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    saved = save(module=module, weight=module.weight)
    back = saved.back()
    assert saved.loaded is not None
    assert [kind for kind, _ in saved.loaded.notes] == [FindingKind.REBUILT]
    assert torch.equal(back["module"](torch.ones(1, 2)), module(torch.ones(1, 2)))
    assert back["module"].weight is back["weight"]


def doubled(number: Any) -> Any:
    """Return twice a number."""
    return number * 2


def test_small_things_of_numpy_and_torch_come_back() -> None:
    walk = np.arange(5).flat
    next(walk)
    file = io.BytesIO()
    np.savez(file, a=np.ones(3))
    back = trip(
        walk=walk, limits=[np.finfo("f4"), np.iinfo("i2"), torch.finfo(torch.half), torch.iinfo(torch.int8)]
    )
    assert next(back["walk"]) == 1
    assert [limits.max for limits in back["limits"]][1:] == [32767, 65504, 127]
    twice = trip(twice=np.frompyfunc(doubled, 1, 1), add=np.add)
    assert twice["twice"](np.arange(3)).tolist() == [0, 2, 4]
    assert twice["add"] is np.add
