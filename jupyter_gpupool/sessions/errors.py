"""What can go wrong with a session cluster."""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class SessionError(GPUPoolError):
    """Branch of the errors of session clusters."""

    code = "session_error"


class NoCluster(SessionError):
    """Raised when a command needs a session cluster and this process has none. Scale to some first."""

    code = "no_cluster"


class OtherWorkers(SessionError):
    """Raised when workers of another size are asked for while there are some. Scale to 0 first."""

    code = "other_workers"


class WorkerNotHere(SessionError):
    """Raised when a worker's lease was granted on a node where its launcher can start nothing."""

    code = "worker_not_here"


class WorkerFailed(SessionError):
    """Raised when a worker's process ended before it joined. The message has the last line of its output."""

    code = "worker_failed"


class LeaseLost(SessionError):
    """Raised when the lease of a worker ended, or its request did. The message says why."""

    code = "lease_lost"


class TooFewWorkers(SessionError):
    """Raised when a training does not get the workers that it needs. Ask for fewer, or for smaller shares."""

    code = "too_few_workers"


class TooManyWorkers(SessionError):
    """Raised when more workers are asked for than a session cluster has. Ask for larger shares instead."""

    code = "too_many_workers"


class ProtocolMissing(SessionError):
    """Raised when workers are to speak by something that is not installed. The message names it."""

    code = "protocol_missing"


class RanksLost(SessionError):
    """Raised when workers of a training are lost again and again. What was saved last is still there."""

    code = "ranks_lost"
