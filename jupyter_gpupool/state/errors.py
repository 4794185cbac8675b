"""Every error of snapshots.

Messages name the snapshot or variable, its state, and the next step.
"""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class StateError(GPUPoolError):
    """Root of the errors of snapshots. Catch it to catch any of them."""

    code = "state"


class NoSuchSnapshot(StateError):
    """Raised when no snapshot has the name or id. The message lists those that are near."""

    code = "no_such_snapshot"


class SnapshotDamaged(StateError):
    """Raised when bytes of a snapshot are missing or are not those that were saved. Restore an older one."""

    code = "snapshot_damaged"


class NotTrusted(StateError):
    """Raised when a snapshot was not written with this owner's key: it would run somebody's code."""

    code = "not_trusted"


class IncompatibleSnapshot(StateError):
    """Raised when a snapshot is known not to restore here. The message names the versions that differ."""

    code = "incompatible_snapshot"


class StoreFull(StateError):
    """Raised when the disk, or the owner's quota in the store, has no room. Nothing saved is lost."""

    code = "store_full"


class StoreUnavailable(StateError):
    """Raised when the store cannot be reached or read at all. Check the address and its permissions."""

    code = "store_unavailable"


class CaptureFailed(StateError):
    """Raised when nothing could be saved. Single variables that cannot be saved never raise it."""

    code = "capture_failed"


class RestoreFailed(StateError):
    """Raised when a restore cannot be finished. The namespace is as it was before; try again."""

    code = "restore_failed"


class Cancelled(StateError):
    """Raised when a checkpoint or restore was stopped. Nothing has changed."""

    code = "cancelled"


class LostValue(StateError):
    """Raised when a value is touched that could not be saved. The message says what it was, and why."""

    code = "lost_value"
