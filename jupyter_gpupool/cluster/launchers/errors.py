"""Why a process cannot be started on a node.

Rule of this module: each message says what was refused, why, and who can change it; it is shown to the person
who asked, so it names nothing of other people's.
"""

from __future__ import annotations

from jupyter_gpupool.cluster.errors import ClusterError


class LaunchError(ClusterError):
    """Branch of the errors of starting processes."""

    code = "launch_failed"


class AccountRefused(LaunchError):
    """Raised when an owner may not have processes on a node. The administrator of the node can change it."""

    code = "account_refused"


class LauncherUnusable(LaunchError):
    """Raised when this node cannot start processes in the way it is told to. Its administrator mends it."""

    code = "launcher_unusable"


class ProgramNotFound(LaunchError):
    """Raised when the program is not on the node, or may not be run. Install it there, or name another."""

    code = "program_not_found"


class DirectoryRefused(LaunchError):
    """Raised when the account may not enter the directory, or it is not there. Name another, or none."""

    code = "directory_refused"
