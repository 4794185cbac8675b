"""What can go wrong between a client and its pool, and how the service's answers become exceptions.

Rule of this module: whoever catches a core error catches it whether the pool is in this process or not; the
``code`` of the error envelope decides which class comes back.
"""

from __future__ import annotations

from jupyter_gpupool.core import errors as core
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.codec import BadMessage, decode
from jupyter_gpupool.protocol.documents import ErrorDoc


class ClientError(GPUPoolError):
    """Branch of the errors of clients."""

    code = "client_error"


class PoolUnreachable(ClientError):
    """Raised when no pool was found, or it does not answer. The message lists what was tried."""

    code = "unreachable"


class VersionConflict(PoolUnreachable):
    """Raised when the running pool speaks another API and has leases. Stop it, or update this client."""

    code = "version_conflict"


class CannotStartHere(PoolUnreachable):
    """Raised when the embedded pool cannot run on this platform. Name the URL of a pool elsewhere."""

    code = "cannot_start_here"


class NotAuthorised(ClientError):
    """Raised when the token is not accepted, or may not do this. Check where it came from."""

    code = "unauthenticated"


class PoolRefused(ClientError):
    """Raised for every other refusal of the pool; ``code`` says which.

    Attributes
    ----------
    retry_after : float or None
        Seconds after which it may work.
    request_id : str
        By which the request is found in the log of the pool service; empty when there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "refused",
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.retry_after = retry_after
        self.request_id = request_id


#: ``code`` of the error envelope -> the class a caller would expect; all others are `PoolRefused`.
_CLASSES: dict[str, type[GPUPoolError]] = {
    kind.code: kind
    for kind in (
        BadMessage,
        core.InvalidValue,
        core.NeverFits,
        core.NoSuchDevice,
        core.DoesNotFitNow,
        core.AlreadyHolds,
        core.GrantsPaused,
        core.UnknownLease,
        core.IllegalTransition,
    )
}


def from_doc(doc: ErrorDoc) -> GPUPoolError:
    """Make the exception that an error envelope stands for."""
    if doc.code in ("unauthenticated", "forbidden"):
        refused = NotAuthorised(doc.message, hint=doc.hint)
        refused.code = doc.code
        return refused
    if kind := _CLASSES.get(doc.code):
        return kind(doc.message, hint=doc.hint)
    return PoolRefused(
        doc.message,
        hint=doc.hint,
        code=doc.code,
        retry_after=doc.retry_after,
        request_id=doc.request_id,
    )


def from_answer(status: int, body: bytes) -> GPUPoolError:
    """Make the exception for an answer that is not a success, whoever sent it."""
    try:
        return from_doc(decode(body, ErrorDoc))
    except BadMessage:
        return PoolRefused(
            f"The pool's address answered HTTP {status} without saying why.",
            hint="Something else may listen there; `jupyter gpupool status` shows which address is used.",
            code=f"http_{status}",
        )
