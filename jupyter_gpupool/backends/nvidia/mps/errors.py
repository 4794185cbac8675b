"""What can go wrong with MPS.

Rule of this module: whatever the control program does (hang, fail, talk nonsense) comes out as one of these.
"""

from __future__ import annotations

from jupyter_gpupool.backends.base import BackendError


class MPSError(BackendError):
    """Branch of the errors of CUDA MPS."""

    code = "mps_error"


class MPSNotInstalled(MPSError):
    """Raised when there is no control program. Install it, or set `mps_control` to its path."""

    code = "mps_not_installed"


class MPSUnreachable(MPSError):
    """Raised when no daemon answers in a pipe directory. CUDA runs without MPS then: restart the holder."""

    code = "mps_unreachable"


class MPSHangs(MPSError):
    """Raised when the control program does not end in time; it was ended. Look into control.log."""

    code = "mps_hangs"


class MPSUnreadable(MPSError):
    """Raised when an answer of the control program cannot be read. Report it with the driver's version."""

    code = "mps_unreadable"
