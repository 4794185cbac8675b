"""Tensors: how each looks at its storage, and what autograd keeps beside it.

Rules of this module: tensors that shared a storage share it again; a gradient and its tensor stay together; a
graph that is still to be gone back through cannot be saved, and its tensor says so.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.memory import layouts
from jupyter_gpupool.state.model import FindingKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

_GRAPH = "the graph that it was computed with cannot be saved: it is a plain value, without gradients"
_SYMBOLIC = "it stands for a tensor inside a transformation of torch, and has no values of its own"


def reduce_tensor(tensor: Any, capturing: Capturing) -> Reduced | None:
    """Take a tensor apart; None where its class says itself how that is done."""
    torch: Any = sys.modules["torch"]
    if _own_way(type(tensor)):
        return None
    with torch._C.DisableTorchFunctionSubclass():
        if _is_symbolic(tensor):
            return capturing.lose(tensor, _SYMBOLIC, "Save what the transformation returns instead.")
        plain = tensor
        if tensor.grad_fn is not None:
            plain = tensor.detach()
            capturing.roots.keep(plain)
            capturing.note(tensor, FindingKind.CHANGED, _GRAPH)
        make, args = layouts.take(plain, capturing.roots)
        kind = type(tensor)
        return make_tensor, (_named(kind), make, args), _state(tensor), None, None, finish


def _named(kind: type) -> type | None:
    return None if kind is sys.modules["torch"].Tensor else kind


def _own_way(kind: type) -> bool:
    """Tell whether a class derived from tensors has a way of its own to be pickled."""
    torch: Any = sys.modules["torch"]
    way = kind.__reduce_ex__
    return way is not torch.Tensor.__reduce_ex__ and way is not torch.nn.Parameter.__reduce_ex__


def _is_symbolic(tensor: Any) -> bool:
    torch: Any = sys.modules["torch"]
    if type(tensor).__module__.startswith("torch._subclasses."):
        return True
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _state(tensor: Any) -> dict[str, Any]:
    """Return what there is beside the values; nothing where it is as in a tensor just made."""
    state: dict[str, Any] = {}
    if tensor.requires_grad and tensor.grad_fn is None:
        state["requires_grad"] = True
    if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        state["grad"] = tensor.grad
    if tensor.grad_fn is None:
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            hooks = getattr(tensor, name, None)
            if hooks:
                state[name] = hooks
    if any(name is not None for name in getattr(tensor, "names", ())):
        state["names"] = tensor.names
    if tensor.__dict__:
        state["dict"] = dict(tensor.__dict__)
    return state


def make_tensor(kind: type | None, make: Any, args: tuple[Any, ...]) -> Any:
    """Make a tensor, or an instance of a class derived from it, around its memory."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        made = make(*args)
        if kind is None or type(made) is kind:
            return made
        return torch.Tensor._make_subclass(kind, made)


def finish(tensor: Any, state: dict[str, Any]) -> None:
    """Give a tensor back what stood beside its values."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        tensor.__dict__.update(state.get("dict", {}))
        tensor.requires_grad_(state.get("requires_grad", False))
        if "grad" in state:
            tensor.grad = state["grad"]
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if name in state:
                setattr(tensor, name, state[name])
        if "names" in state:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                tensor.rename_(*state["names"])
    _say_where(tensor)


def _say_where(tensor: Any) -> None:
    moved = current().regions.moved
    if not moved or tensor.layout is not sys.modules["torch"].strided or tensor.device.type == "meta":
        return
    was = moved.get(id(tensor.untyped_storage()))
    if was is not None:
        reason = f"it was on {was}, and is on {tensor.device} now"
        current().note(tensor, FindingKind.CHANGED, reason, "Move it with .to(…) where that matters.")


def reduce_generator(generator: Any, capturing: Capturing) -> Reduced:
    """Take a stream of random numbers apart."""
    state = generator.get_state()
    capturing.roots.keep(state)
    return make_generator, (str(generator.device), state)


def make_generator(device: str, state: Any) -> Any:
    """Make a stream of random numbers that goes on; one of a device that is not there cannot."""
    import torch

    place = current().regions.place(device)
    if place != device:
        reason = f"its numbers come from {device}, which is not there"
        return current().lost("torch.Generator", reason, "Make a new one, with a seed.")
    made = torch.Generator(device)
    made.set_state(state)
    return made
