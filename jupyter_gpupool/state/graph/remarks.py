"""What there is to report of a value while a namespace is captured or made again.

Rule of this module: a remark holds the value itself; where that is, is looked for when everything is there.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.state.model import FindingKind


class Remark:
    """Something to be reported of a value; where it is, is looked for when the dump has ended."""

    __slots__ = ("hint", "kind", "reason", "value", "variable")

    def __init__(self, value: Any, kind: FindingKind, reason: str, hint: str, variable: str) -> None:
        self.value, self.kind, self.reason, self.hint, self.variable = value, kind, reason, hint, variable
