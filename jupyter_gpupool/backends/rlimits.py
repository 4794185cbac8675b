"""Soft RLIMIT_DATA of other processes.

Rule of this module: the hard limit is never changed (without privilege it could not be raised again), and a
soft limit is never set above it.
"""

from __future__ import annotations

#: How "unlimited" is written here and in records.
UNLIMITED = -1


def data_limits(pid: int) -> tuple[int, int]:
    """Return the soft and hard RLIMIT_DATA of a process, bytes; -1 for unlimited.

    Raises
    ------
    ProcessLookupError
        If it is gone.
    PermissionError
        If it is another user's.
    """
    import resource

    soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
    return _ours(soft), _ours(hard)


def set_soft_data_limit(pid: int, wanted: int) -> int:
    """Set the soft RLIMIT_DATA of a process, at most its hard one, and return what should now be in force."""
    import resource

    soft, hard = data_limits(pid)
    target = lower(wanted, hard)
    if target != soft:
        resource.prlimit(pid, resource.RLIMIT_DATA, (_theirs(target), _theirs(hard)))
    return target


def lower(one: int, other: int) -> int:
    """Return the lower of two limits, of which either may be unlimited."""
    if one == UNLIMITED:
        return other
    return one if other == UNLIMITED else min(one, other)


def _ours(value: int) -> int:
    """Write the platform's "unlimited" as -1."""
    import resource

    return UNLIMITED if value == resource.RLIM_INFINITY else value


def _theirs(value: int) -> int:
    """Write -1 as the platform's "unlimited"."""
    import resource

    return resource.RLIM_INFINITY if value == UNLIMITED else value
