"""Every error of the control plane and the agent.

Rule of this module: messages name the subject and the next step; what a holder is shown carries its own code.
"""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class ClusterError(GPUPoolError):
    """Branch of the errors of the control plane and of agents."""

    code = "cluster_error"


class AgentAway(ClusterError):
    """Raised when an order could not be given to an agent. It is repeated when the agent joins again."""

    code = "agent_away"


class AgentRuns(ClusterError):
    """Raised when another agent runs in the same runtime directory. Use that one, or end it first."""

    code = "agent_runs"


class ControlPlaneDown(ClusterError):
    """Raised when the control plane cannot listen. The message has the address and the reason."""

    code = "control_plane_down"


class BadCertificateRequest(ClusterError):
    """Raised when a node asks for a certificate in a way that cannot be granted. Join again."""

    code = "bad_certificate_request"


class JoinRefused(ClusterError):
    """Raised when a pool does not let a node join. The message says why, and what to ask for."""

    code = "join_refused"


class NotJoined(ClusterError):
    """Raised when a node has no certificate for the pool that it shall serve. Give it a join token."""

    code = "not_joined"


class WrongPool(ClusterError):
    """Raised when what answers is not the pool that vouched for the token. Check the address."""

    code = "wrong_pool"


class AuthorityFault(ClusterError):
    """Raised when the pool's certificate authority cannot do what was asked. The message says why."""

    code = "authority_fault"


class LinkRefused(ClusterError):
    """Raised inside an agent when the pool will not have it. It is told in the log, and tried again."""

    code = "link_refused"


class LinkLost(ClusterError):
    """Raised inside an agent when its connection to the pool service broke; it connects again by itself."""

    code = "link_lost"


class AttachError(ClusterError):
    """Branch of what a process is told that showed itself on the agent's socket and was refused."""

    code = "attach_refused"


class WrongUser(AttachError):
    """Raised when the process belongs to another user. Each user attaches to an agent of their own."""

    code = "wrong_user"


class OtherPidNamespace(AttachError):
    """Raised when the agent cannot see the process. Run the agent in the host PID namespace."""

    code = "pid_namespace"


class PeerGone(AttachError):
    """Raised when the process ended, or hung up, before it was identified. Nothing needs to be done."""

    code = "holder_gone"


class StaleTicket(AttachError):
    """Raised when a ticket is unknown, used or expired. Ask the pool for the lease again to get a new one."""

    code = "stale_ticket"


class LeaseOver(AttachError):
    """Raised when the lease ended while its holder was being attached. Request a new one."""

    code = "lease_ended"


class AlreadyAttached(AttachError):
    """Raised when another process is attached to the lease. Request another lease for this one."""

    code = "already_attached"


class KernelNotEncrypted(ClusterError):
    """Raised when a kernel that the network could listen to is asked of a node that has none. Encrypt it."""

    code = "kernel_not_encrypted"
