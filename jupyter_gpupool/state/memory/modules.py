"""Modules of torch that refuse to be pickled, or that are made by a compiler.

Rule of this module: parameters stay the tensors that they were, so that an optimizer goes on with them; a
module that is made again from its program is said to be.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.state.graph.loading import current
from jupyter_gpupool.state.model import FindingKind

if TYPE_CHECKING:
    from jupyter_gpupool.state.graph.capturing import Capturing
    from jupyter_gpupool.state.recipes.registry import Reduced

_PARAMETRIZED = "torch.nn.utils.parametrize"


def reduce_module(module: Any, capturing: Capturing) -> Reduced | None:
    """Take a module apart whose parameters are computed from others; None for all that go the usual way."""
    kind = type(module)
    if kind.__module__ != _PARAMETRIZED or not kind.__name__.startswith("Parametrized"):
        return None
    return make_blank, (kind.__bases__[0],), dict(module.__dict__), None, None, finish_parametrized


def make_blank(kind: Any) -> Any:
    """Make a module that has nothing yet."""
    return kind.__new__(kind)


def finish_parametrized(module: Any, state: dict[str, Any]) -> None:
    """Give a module what it had, and have its parameters computed again."""
    from torch.nn.utils import parametrize

    module.__dict__.update(state)
    parametrize._inject_new_class(module)
    for name in module.parametrizations:
        parametrize._inject_property(module, name)


def reduce_script(module: Any, capturing: Capturing) -> Reduced:
    """Take a module or function apart that torch has compiled: its program, and its tensors."""
    torch: Any = sys.modules["torch"]
    program = io.BytesIO()
    torch.jit.save(module, program)
    tensors: dict[str, Any] = {}
    if isinstance(module, torch.nn.Module):
        tensors |= dict(module.named_parameters(remove_duplicate=False))
        tensors |= dict(module.named_buffers(remove_duplicate=False))
    return make_script, (program.getvalue(),), tensors, None, None, finish_script


def make_script(program: bytes) -> Any:
    """Make a compiled module or function from its program."""
    import torch

    made = torch.jit.load(io.BytesIO(program), map_location="cpu")
    current().note(made, FindingKind.REBUILT, "it was loaded again from its compiled program")
    return made


def finish_script(module: Any, tensors: dict[str, Any]) -> None:
    """Give a compiled module its own tensors in place of the copies in the program."""
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        owner = module
        for part in path:
            owner = getattr(owner, part)
        owner._c.setattr(last, tensor)
