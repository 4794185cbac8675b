"""Errors as HTTP answers.

Rule of this module: this one table says which status an error has; what is not in it is a bug and a 500.
"""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import ErrorDoc

#: Error code -> HTTP status.
STATUS = {
    "bad_message": 400,
    "invalid_value": 400,
    "bad_quotas": 400,
    "bad_reservations": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "unknown_lease": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "already_holds": 409,
    "not_its_node": 409,
    "does_not_fit_now": 409,
    "quota_exceeded": 409,
    "illegal_transition": 409,
    "limits_refused": 409,
    "idempotency_conflict": 409,
    "attach_refused": 409,
    "rules_changed": 409,
    "too_slow": 408,
    "too_large": 413,
    "too_many_requests": 429,
    "never_fits": 422,
    "no_such_device": 422,
    "journal_unavailable": 503,
    "hub_unavailable": 503,
    "audit_unavailable": 503,
    "cannot_write_rules": 503,
    "agent_away": 503,
    "stopping": 503,
}
#: Error code -> seconds after which trying again may help.
RETRY_AFTER_SECONDS = {
    "journal_unavailable": 1.0,
    "agent_away": 1.0,
    "stopping": 1.0,
    "hub_unavailable": 5.0,
    "too_many_requests": 1.0,
}


class NotFound(GPUPoolError):
    """Raised when there is nothing at a path. See openapi.yaml for the paths there are."""

    code = "not_found"


class MethodNotAllowed(GPUPoolError):
    """Raised when a path does not take a method. See the ``Allow`` header of the answer."""

    code = "method_not_allowed"


class TooLarge(GPUPoolError):
    """Raised when a body is larger than any request needs. Send less."""

    code = "too_large"


class TooSlow(GPUPoolError):
    """Raised when a body does not come in time. Send it again."""

    code = "too_slow"


class TooManyRequests(GPUPoolError):
    """Raised when one owner asks more, or has more event streams, than is served. Wait a moment."""

    code = "too_many_requests"


class HubUnavailable(GPUPoolError):
    """Raised when JupyterHub cannot say who asks. Try again; its administrator can see why."""

    code = "hub_unavailable"


class LimitsRefusedByAgent(GPUPoolError):
    """Raised when the agent could not put a new size in force; the old one holds. The message says why."""

    code = "limits_refused"


class Stopping(GPUPoolError):
    """Raised while the service ends. Try again: whoever calls next starts it anew."""

    code = "stopping"


def answer_for(error: GPUPoolError) -> tuple[int, ErrorDoc]:
    """Return the status and the body for an error."""
    doc = ErrorDoc(
        code=error.code,
        message=error.message,
        hint=error.hint,
        retry_after=RETRY_AFTER_SECONDS.get(error.code),
    )
    return STATUS.get(error.code, 500), doc
