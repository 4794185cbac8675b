"""Names of snapshots and variables: what completion offers, and what is no variable.

Rules of this module: nothing is waited for: a store that is not on this machine is not asked; nothing is made
by being looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.kernel.shell import running_shell

#: How many names are offered.
_MOST = 50


def snapshot_names() -> list[str]:
    """Return the names of snapshots, newest first."""
    from jupyter_gpupool.kernel.snapshots.session import this_session

    try:
        session = this_session()
        if not session.store_is_near:
            return []
        return list(dict.fromkeys(it.name for it in session.store.list() if it.name))[:_MOST]
    except (GPUPoolError, OSError):
        return []


def variable_names() -> list[str]:
    """Return the names of the user's variables."""
    shell = running_shell()
    hidden = getattr(shell, "user_ns_hidden", {})
    found = getattr(shell, "user_ns", {})
    return sorted(
        name for name, value in found.items() if not name.startswith("_") and hidden.get(name) is not value
    )


def known_variables(namespace: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Refuse names that are no variables.

    Raises
    ------
    InvalidValue
        For the first that is not, with what is near.
    """
    unknown = [name for name in wanted if name not in namespace]
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], list(namespace), n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Names are written as a,b."
        raise InvalidValue(f"There is no variable “{unknown[0]}” here.", hint=hint)
