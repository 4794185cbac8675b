"""Filters of warnings.

Rule of this module: the list itself stays the same object, for modules hold on to it.
"""

from __future__ import annotations

import warnings
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo


def _take(tell: Tell) -> list[Any]:
    return list(warnings.filters)


def _assign(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    with warnings.catch_warnings():
        pass  # makes Python forget what it has decided by the old ones


def _put(value: list[Any], tell: Tell) -> Undo:
    changes, before = Changes("warnings", tell), list(warnings.filters)
    value = [one for one in value if not lost.is_lost(one) and not any(map(lost.is_lost, one))]
    if value != before:
        changes.make("warnings.filters", lambda: _assign(value), lambda: _assign(before))
    return changes.undo


SECTION = Section(name="warnings", take=_take, put=_put)
