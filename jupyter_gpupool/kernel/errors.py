"""What can go wrong in the process that wants a lease."""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class HolderError(GPUPoolError):
    """Branch of the errors of a holder."""

    code = "holder_error"


class NotOnNode(HolderError):
    """Raised when a lease was granted on another machine. Run the kernel there, or ask for a device here."""

    code = "not_on_node"


class AgentSilent(HolderError):
    """Raised when the node's agent does not take the ticket. Try again; the pool restarts its agent."""

    code = "agent_silent"


class AttachRefused(HolderError):
    """Raised when this process cannot be put under the limits. The message has both numbers."""

    code = "attach_refused"


class RequestEnded(HolderError):
    """Raised when a request ended before its lease was in force. The message says why."""

    code = "request_ended"


class NothingHeld(HolderError):
    """Raised when a command needs a lease and this process has none. Request one first."""

    code = "nothing_held"


class WhichLease(HolderError):
    """Raised when this process has several leases and the command does not say which. Name the kind."""

    code = "which_lease"


class NotHolder(HolderError):
    """Raised in a forked child that uses its parent's lease. Only the process that asked may change it."""

    code = "not_holder"


class ServersLease(HolderError):
    """Raised when a kernel would change its server's lease, or asks for more. Choose another at its start."""

    code = "servers_lease"


class NotMovable(HolderError):
    """Raised when this kernel cannot be started on another node. The message says why, and what helps."""

    code = "not_movable"


class KernelMoves(HolderError):
    """Raised when this kernel is about to end, and to start on another node: nothing more runs in it here."""

    code = "kernel_moves"

    def _render_traceback_(self) -> list[str]:
        """Say to IPython how it is shown: as one sentence."""
        return [str(self)]


class CellFailed(HolderError):
    """Raised when a cell that was run again failed. Its own error is shown above."""

    code = "cell_failed"
