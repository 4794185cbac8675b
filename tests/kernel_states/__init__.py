"""States of kernels: what is true of each after a restore, and what may be reported instead.

A state's source is split at ``# %%``: one block for each cell. ``# %% check`` runs in the restored namespace
and sets OK; ``# %% if reported: a, b`` names what may be reported as not restorable instead, and checks the
rest. A check that is only true after a restore begins with ``# %% check after a restore``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module

#: The modules with states.
_KINDS = (
    "objects",
    "code",
    "memory",
    "things",
    "process",
    "mixed",
    "more",
    "arrays",
    "definitions",
    "places",
    "settings",
    "further",
    "libraries",
)


@dataclass(frozen=True)
class State:
    """One state of a kernel.

    Attributes
    ----------
    name : str
        What is to be true.
    cells : list of str
        What is run before the checkpoint.
    check : str
        What is run after the restore; it sets OK.
    may_report : frozenset of str
        Variables that may be reported as not restorable instead.
    rest : str
        The check where they were.
    """

    name: str
    cells: list[str] = field(default_factory=list)
    check: str = ""
    may_report: frozenset[str] = frozenset()
    rest: str = ""


def states() -> list[State]:
    """Read all states."""
    found = [import_module(f"tests.kernel_states.{kind}").STATES for kind in _KINDS]
    return [_parsed(name, source) for several in found for name, source in several]


def _parsed(name: str, source: str) -> State:
    cells, check, rest, may_report = [], "", "", frozenset[str]()
    for block in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        head, body = head.strip(), body.strip("\n")
        if head.startswith("check"):
            check = body
        elif head.startswith("if reported:"):
            may_report, rest = frozenset(re.findall(r"\w+", head.removeprefix("if reported:"))), body
        else:
            cells.append(body)
    return State(name, cells, check, may_report, rest)
