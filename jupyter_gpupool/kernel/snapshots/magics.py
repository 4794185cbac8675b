"""What the commands of ``%gpupool`` do that save and restore.

Rule of this module: each command is one call of the Python API and one thing shown; nothing is returned, so
that what is shown stays out of the namespace that it is about.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from jupyter_gpupool.kernel.render import sentence
from jupyter_gpupool.kernel.snapshots import api


def _first(arguments: Namespace) -> str:
    return str(arguments.words[0]) if arguments.words else ""


def _checkpoint(arguments: Namespace) -> None:
    skip = getattr(arguments, "except")
    saved = api.checkpoint(_first(arguments), note=arguments.note or "", only=arguments.only, skip=skip)
    display(saved.rendering(whole=arguments.report))


def _restore(arguments: Namespace) -> None:
    restored = api.restore(
        _first(arguments),
        only=arguments.only,
        prefix=getattr(arguments, "as") or "",
        map_device=arguments.map,
        lazy=arguments.lazy,
        trust=arguments.trust,
    )
    display(restored.rendering(whole=arguments.report))


def _snapshots(arguments: Namespace) -> None:
    words = arguments.words
    if words and (words[0] != "inspect" or len(words) != 2):
        raise UsageError(f"“{words[0]}” is not understood here. `%gpupool snapshots inspect NAME` shows one.")
    if arguments.gc:
        display(api.collect().rendering())
    elif words:
        display(api.inspect(words[1]).rendering())
    else:
        display(api.snapshots(automatic=arguments.all).rendering())


def _diff(arguments: Namespace) -> None:
    display(api.diff(*arguments.words).rendering())


def _forget(arguments: Namespace) -> None:
    gone = api.forget(_first(arguments))
    several = f"{len(gone)} snapshots called " if len(gone) > 1 else ""
    display(
        sentence(f"Forgot {several}“{_first(arguments)}”. `%gpupool snapshots --gc` frees what only it had.")
    )


def _rerun(arguments: Namespace) -> None:
    api.rerun(_first(arguments))


def _autosave(arguments: Namespace) -> None:
    policy = api.autosave(*arguments.words)
    later = not policy.off and not api.saves_by_itself()
    begins = " It begins with the first lease, checkpoint or restore here." if later else ""
    display(sentence(f"Autosave: {policy}.{begins}"))


#: Handlers by command.
HANDLERS: dict[str | None, Callable[[Namespace], Any]] = {
    "checkpoint": _checkpoint,
    "restore": _restore,
    "snapshots": _snapshots,
    "diff": _diff,
    "forget": _forget,
    "rerun": _rerun,
    "autosave": _autosave,
}
