"""Putting restored values into a namespace, so that it can be taken back exactly.

Rules of this module: everything that is changed is remembered before it is changed; taking it back goes on to
its end also when it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Undo:
    """A namespace, and what else was changed, with the way back.

    Parameters
    ----------
    namespace : dict
        The live namespace.

    Attributes
    ----------
    before : dict
        What it was.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self.before = dict(namespace)
        self._steps: list[Callable[[], object]] = []

    def then(self, step: Callable[[], object]) -> None:
        """Remember how something else is taken back."""
        self._steps.append(step)

    def undo(self) -> None:
        """Take everything back, the last change first."""
        try:
            while self._steps:
                step = self._steps.pop()
                step()
        finally:
            self._put_back()

    def _put_back(self) -> None:
        try:
            change(self._namespace, self.before)
        except BaseException:
            change(self._namespace, self.before)  # interrupted: once more, from the beginning
            raise


def change(namespace: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Give a namespace exactly these names and values; names that do not change are never away."""
    for name in [name for name in namespace if name not in wanted]:
        del namespace[name]
    for name, value in wanted.items():
        if name not in namespace or namespace[name] is not value:
            namespace[name] = value
    if list(namespace) != list(wanted):
        namespace.clear()
        namespace.update(wanted)
