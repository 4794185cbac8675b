"""Optimizers of torch, with all that they have: their own way of being pickled leaves hooks out.

Rule of this module: an optimizer holds the model's own parameters, and schedulers find it as they left it.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

#: A scheduler puts a function with this attribute in place of `step`, to see whether it was called.
_MARK = "_wrapped_by_lr_sched"


def reduce_optimizer(optimizer: Any, capturing: Capturing) -> Reduced | None:
    """Take an optimizer apart; None for one whose class has a way of its own."""
    base = sys.modules["torch.optim.optimizer"].Optimizer
    kind: Any = type(optimizer)
    if kind.__getstate__ is not base.__getstate__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return None
    state = dict(optimizer.__dict__)
    scheduled = hasattr(state.get("step"), _MARK)
    if scheduled:
        del state["step"]
    return make_blank, (kind,), (scheduled, state), None, None, finish


def make_blank(kind: Any) -> Any:
    """Make an optimizer that has nothing yet."""
    return kind.__new__(kind)


def finish(optimizer: Any, state: tuple[bool, dict[str, Any]]) -> None:
    """Give an optimizer what it had."""
    scheduled, own = state
    optimizer.__setstate__(own)
    if scheduled:
        optimizer.step = _watched(optimizer)


def _watched(optimizer: Any) -> Any:
    """Return the optimizer's step as schedulers want it: it tells them that it was called."""
    step, owner = optimizer.step.__func__, weakref.ref(optimizer)

    @functools.wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        made = owner()
        made._opt_called = True  # type: ignore[union-attr]
        return step.__get__(made, type(made))(*args, **kwargs)

    setattr(watched, _MARK, True)
    return watched
