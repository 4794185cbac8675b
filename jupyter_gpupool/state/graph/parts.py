"""What of the process goes with a namespace, taken and put back section by section.

Rule of this module: a section that fails costs itself, and is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_gpupool.state.graph import known, lost
from jupyter_gpupool.state.graph.naming import reason_of
from jupyter_gpupool.state.model import Finding, FindingKind
from jupyter_gpupool.state.process.assemble import sections
from jupyter_gpupool.state.process.history import History
from jupyter_gpupool.state.process.section import Section, Tell, finding

#: The part of the stream that says where modules of the user's own files come from.
ORIGINS = "origins"


class Parts:
    """Sections of this process.

    Parameters
    ----------
    namespace : dict
        The namespace that they go with.
    history : History, optional
        What was typed and what came out; found by itself where the namespace is that of a shell.
    """

    def __init__(self, namespace: dict[str, Any], history: History | None = None) -> None:
        found = sections(history or history_of_shell(namespace), namespace=namespace)
        self._sections = {part.name: part for part in found}

    def take(self, *, first: bool, tell: Tell) -> list[tuple[str, Any]]:
        """Take those that must be there before the variables are, or the others."""
        taken = [(part.name, _taken(part, tell)) for part in self._sections.values() if part.first is first]
        return [(name, value) for name, value in taken if not isinstance(value, _Failed)]

    def put(self, name: str, value: Any, tell: Tell) -> Callable[[], object] | None:
        """Put one back, and return how that is taken back."""
        part = self._sections.get(name)
        if part is None:
            return None
        if lost.is_lost(value):
            tell(_failed(name, lost.loss_of(value).reason))
            return None
        try:
            return part.put(value, tell)
        except MemoryError:
            raise
        except Exception as error:
            tell(_failed(name, f"it cannot be put back here: {reason_of(error)}"))
            return None


class _Failed:
    """Stands for a section that could not be taken."""


def _taken(part: Section, tell: Tell) -> Any:
    try:
        return part.take(tell)
    except MemoryError:
        raise
    except Exception as error:
        tell(_failed(part.name, f"it could not be looked at: {reason_of(error)}"))
        return _Failed()


def _failed(section: str, reason: str) -> Finding:
    return finding(section, FindingKind.NOT_SAVED, f"({section})", "", reason)


def history_of_shell(namespace: dict[str, Any]) -> History | None:
    """Return the memory of the shell whose namespace this is; None where there is none."""
    shell = known.shell()
    memory = getattr(shell, "history_manager", None)
    if memory is None or shell.user_ns is not namespace or not isinstance(namespace.get("Out"), dict):
        return None
    inputs = {"In": memory.input_hist_parsed, "raw": memory.input_hist_raw}
    if isinstance(namespace.get("_dh"), list):
        inputs["_dh"] = namespace["_dh"]
    return History(
        inputs=inputs,
        outputs=namespace["Out"],
        names=namespace,
        hidden=shell.user_ns_hidden,
        latest=shell.displayhook,
        count=lambda: int(shell.execution_count),
        set_count=lambda number: setattr(shell, "execution_count", number),
    )


def origins() -> dict[str, str]:
    """Return the files of modules that were imported from the user's own folders."""
    from jupyter_gpupool.state.process.modules import installed

    found = {}
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or not file.endswith(".py") or "." in name or name == "__main__":
            continue
        if not file.startswith(installed()):
            found[name] = str(Path(file).absolute())
    return found
