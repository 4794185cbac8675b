"""Deep snapshots of a pool, to show that something changed nothing."""

from __future__ import annotations

from typing import Any

from jupyter_gpupool.core.pool import Pool

#: Attributes that are derived or only remember what was looked up.
_CACHES = {"_explainer", "_answerer", "_queue", "_config", "_watchers", "fresh", "standings", "reservations"}


def snapshot(pool: Pool) -> Any:
    """Turn everything that a pool knows into plain values that can be compared."""
    return _plain({key: value for key, value in vars(pool).items() if key not in _CACHES})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if type(value).__module__.startswith("jupyter_gpupool") and not hasattr(value, "value"):
        names = getattr(type(value), "__slots__", None) or vars(value).keys()
        kept = [name for name in names if name not in _CACHES]
        return [type(value).__name__, [(name, _plain(getattr(value, name))) for name in kept]]
    return repr(value)
