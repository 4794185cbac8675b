"""Snapshots of a namespace: captured whole, restored true, and honest about what cannot be saved.

Rules of this package: it needs neither a pool nor Jupyter; libraries of the user (numpy, torch, pandas) are
never imported by it, but found in ``sys.modules`` or imported by a restore that needs them; what cannot be
restored right is reported by name and reason, never approximated.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Report": "report",
    "Snapshot": "snapshot",
    "capture": "api",
    "diff": "api",
    "inspect": "api",
    "open_store": "store.opening",
    "register": "recipes.users",
    "restore": "api",
    "stage": "api",
    "warm": "api",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
