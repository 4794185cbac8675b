"""Every error the core raises: one root, one branch for each kind of fault.

Messages name the subject, its state, and the next step.
"""

from __future__ import annotations


class GPUPoolError(Exception):
    """Root of all errors of this project. Catch it to catch any of them.

    Attributes
    ----------
    code : str
        Stable machine-readable name, the ``code`` of the HTTP error envelope.
    hint : str
        The next step, in one sentence; may be empty.
    """

    code = "internal"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InvalidValue(GPUPoolError):
    """Raised when a share, memory size, duration or name cannot be read. Correct it as the message shows."""

    code = "invalid_value"


class RequestRefused(GPUPoolError):
    """Raised when a request can never be granted, or not now and the caller would not wait."""

    code = "refused"


class NeverFits(RequestRefused):
    """Raised when no device of the pool is large enough. Ask for at most what the message names."""

    code = "never_fits"


class NoSuchDevice(RequestRefused):
    """Raised when no device has the kind or name that was asked for. The message lists those that exist."""

    code = "no_such_device"


class DoesNotFitNow(RequestRefused):
    """Raised when the caller would not wait, or a grow does not fit. The message says what would fit."""

    code = "does_not_fit_now"


class QuotaExceeded(RequestRefused):
    """Raised when a quota does not allow it. The message says whose quota it is, and what would fit."""

    code = "quota_exceeded"


class AlreadyHolds(RequestRefused):
    """Raised when the holder already has a lease of that device kind. Resize it instead."""

    code = "already_holds"


class GrantsPaused(RequestRefused):
    """Raised while nothing can be granted because the journal cannot be written. Try again later."""

    code = "journal_unavailable"


class LeaseError(GPUPoolError):
    """Branch of the errors that concern one existing lease."""

    code = "lease_error"


class UnknownLease(LeaseError):
    """Raised when no live lease has that id. List the leases to see which exist."""

    code = "unknown_lease"


class DuplicateLease(LeaseError):
    """Raised when a lease with that id exists already. Ids are minted once; this is a bug in the caller."""

    code = "duplicate_lease"


class IllegalTransition(LeaseError):
    """Raised when an event is not allowed in the lease's state; nothing was changed."""

    code = "illegal_transition"


class StaleReport(LeaseError):
    """Raised when an agent reports on an earlier generation of a lease; nothing was changed."""

    code = "stale_report"


class InvariantBroken(GPUPoolError):
    """Raised by ``check_invariants``: the ledger contradicts itself. Never expected; report it."""

    code = "invariant_broken"
