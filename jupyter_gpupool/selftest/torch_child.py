"""A holder that uses PyTorch as it is told on stdin: environment and caps as a kernel applies them.

Rule of this module: it is run as ``python -m jupyter_gpupool.selftest.torch_child``, because the caps are put
on by the code of kernels.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from jupyter_gpupool.kernel.caps import FrameworkCaps
from jupyter_gpupool.kernel.frameworks import installed
from jupyter_gpupool.protocol.frameworks import applied
from jupyter_gpupool.protocol.messages import DeviceCap

_caps = FrameworkCaps()
_held: list[Any] = []


def ready(**_: Any) -> dict[str, Any]:
    """Say which PyTorch is installed; nothing is imported for it."""
    return {"version": installed().get("pytorch", "")}


def enter(environment: dict[str, str], caps: list[Any], **_: Any) -> dict[str, Any]:
    """Take over what the agent gave, import PyTorch, and say whether it sees a GPU."""
    os.environ.update(applied(environment, dict(os.environ), installed()))
    _caps.put(msgspec.convert(caps, list[DeviceCap]))
    import torch

    return {"gpu": torch.cuda.is_available(), "problems": _caps.problems}


def alloc(**arguments: Any) -> dict[str, Any]:
    """Allocate ``bytes`` on ``device`` and write to them; ``refused`` is the error, "" when it worked."""
    import torch

    try:
        made = torch.zeros(arguments["bytes"], dtype=torch.uint8, device=arguments["device"])
        if made.is_cuda:
            torch.cuda.synchronize()
    except (RuntimeError, MemoryError) as error:  # the GPU's and the CPU's word for it
        return {"refused": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"}
    _held.append(made)
    return {"refused": ""}


def free(**_: Any) -> dict[str, Any]:
    """Give everything back."""
    import torch

    _held.clear()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "ready": ready,
    "enter": enter,
    "alloc": alloc,
    "free": free,
}


def main() -> None:
    """Answer commands until stdin ends; what libraries print goes elsewhere."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            command = json.loads(line)
            answer = _COMMANDS[command.pop("do")](**command)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
