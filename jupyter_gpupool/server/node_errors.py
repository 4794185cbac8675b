"""What keeps a kernel from running where its share is.

Rule of this module: a person reads these when a kernel does not start, so each names the next step.
"""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class NodeKernelError(GPUPoolError):
    """Branch of the errors of kernels on the nodes of their leases."""

    code = "node_kernel"


class PoolNotThere(NodeKernelError):
    """Raised when a kernel needs the pool to start, and it is not there. See the status of the pool."""

    code = "pool_not_there"


class ShareNotGranted(NodeKernelError):
    """Raised when a kernel's request for its share ended without one. The message says why."""

    code = "share_not_granted"


class KernelNotStarted(NodeKernelError):
    """Raised when a kernel's process could not be started on its node, or ended at once. It says why."""

    code = "kernel_not_started"
