"""Limits that the server itself puts on its clients, so that a client can only tighten them.

Rules of this module: a server has one limit for all its clients, so it is the largest that a lease on the GPU
needs; a limit that does not read back is told, and then only the client's environment limits it.
"""

from __future__ import annotations

import logging

from jupyter_gpupool.backends.nvidia.mps.control import MPSControl
from jupyter_gpupool.backends.nvidia.mps.errors import MPSError
from jupyter_gpupool.backends.nvidia.mps.ledger import DaemonRecord, Numbers

logger = logging.getLogger(__name__)

#: How far a percentage may read back above what was set: it is a decimal fraction, never exact.
_CLOSE = 0.05


def apply(control: MPSControl, record: DaemonRecord) -> str:
    """Put the largest of all leases' limits on the daemon's servers, and on its next one.

    Returns
    -------
    str
        Why they do not hold, one sentence; empty when they do.
    """
    largest = record.largest()
    if largest is None:
        return ""
    if not record.own and record.before_percentage is None:
        return f"The MPS daemon in {record.pipes} does not take commands from us."
    try:
        for server in [None, *control.servers(record.place.pipes)]:
            if reason := _set(control, record, server, largest):
                return reason
    except MPSError as error:
        return error.message
    return ""


def _set(control: MPSControl, record: DaemonRecord, server: int | None, wanted: Numbers) -> str:
    percentage, memory = control.limit(
        record.place.pipes,
        server,
        record.uuid,
        percentage=wanted.percentage,
        memory_mib=wanted.memory_mib,
    )
    if percentage > wanted.percentage + _CLOSE:
        return f"A thread percentage of {wanted.percentage} reads back as {percentage:g}."
    if memory is None or memory > wanted.memory_mib:
        return f"A memory limit of {wanted.memory_mib} MiB reads back as {memory or 'none'}."
    return ""


def restore(control: MPSControl, record: DaemonRecord) -> None:
    """Give an administrator's daemon back what it had; where it had no limit, the whole GPU is one."""
    pipes = record.place.pipes
    if record.before_percentage is None:
        return
    try:
        for server in [None, *control.servers(pipes)]:
            mib = record.before_memory_mib or record.whole_mib
            control.limit(pipes, server, record.uuid, percentage=record.before_percentage, memory_mib=mib)
    except MPSError as error:  # a daemon that is gone has no limits any more
        logger.warning("The MPS daemon in %s keeps our limits: %s", pipes, error)
