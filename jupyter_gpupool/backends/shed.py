"""How a process of the pool gets rid of the limits of the kernel that started it.

Rule of this module: limits are inherited, and a pool that a kernel (re)starts serves everybody; so it takes
off what that kernel's lease put on, and nothing where there is no lease.
"""

from __future__ import annotations

import contextlib
import logging
import os

from jupyter_gpupool.backends import leasegroups
from jupyter_gpupool.backends.base import LimitNotInForce
from jupyter_gpupool.backends.cgroups import ControlGroups
from jupyter_gpupool.backends.cpu_isolation import THREAD_VARIABLES
from jupyter_gpupool.backends.host.scope import Scopes, leave_scope
from jupyter_gpupool.backends.procfs import ProcFS
from jupyter_gpupool.backends.rlimits import data_limits, set_soft_data_limit
from jupyter_gpupool.protocol.names import ENV_LEASE

logger = logging.getLogger(__name__)


def shed_inherited_limits() -> str:
    """Take the limits of an inherited lease off this process; call it before anything else is started.

    Returns
    -------
    str
        The id of the lease; empty where there was none and nothing was done.
    """
    lease_id = os.environ.pop(ENV_LEASE, "")
    if not lease_id:
        return ""
    for variable in THREAD_VARIABLES:
        os.environ.pop(variable, None)
    set_soft_data_limit(os.getpid(), data_limits(os.getpid())[1])
    leasegroups.leave_ours(ControlGroups(), os.getpid())
    try:
        leave_scope(Scopes(), ProcFS())
    except LimitNotInForce as error:
        logger.warning("This pool stays in the scope of the kernel that started it: %s", error)
    every = range(os.cpu_count() or 1)
    for thread in ProcFS().threads(os.getpid()):
        with contextlib.suppress(OSError):  # what a cpuset forbids stays forbidden
            os.sched_setaffinity(thread, every)
    return lease_id
