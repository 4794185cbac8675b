"""A kernel of a server that has a lease for all of its kernels: it is under that lease, with no second one.

Rules of this module: the lease is the server's, so a kernel neither ends it nor changes it; the limits are in
force already, as the kernel is a child of the server, and what a process has to do to itself (thread counts,
caps of frameworks) each kernel does; a failure is one sentence, and the kernel starts all the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from jupyter_gpupool.client.errors import PoolUnreachable
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import format_compute, format_memory
from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.errors import ServersLease
from jupyter_gpupool.kernel.frameworks import installed
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.process import Process, this_process
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.documents import LeaseDoc, LeaseRequest
from jupyter_gpupool.protocol.slices import SliceDoc

_OVER = frozenset({LeaseState.ENDING, LeaseState.ENDED})
_HINT = "Stop the server and start it with another share; `%gpupool` shows what there is."


class SharedLease(Lease):
    """A server's lease, in one of its kernels."""

    def release(self) -> None:
        """Do nothing: it is the server's, and ends with it."""

    def resize(self, share: str | float, *, memory: str | int | None = None) -> Lease:
        """Refuse: it is the server's, with all of its kernels.

        Raises
        ------
        ServersLease
            Always.
        """
        raise self._not_ours("changed")

    def _pin(self, *, pinned: bool) -> Lease:
        raise self._not_ours("pinned" if pinned else "unpinned")

    def _not_ours(self, what: str) -> ServersLease:
        return ServersLease(
            f"This lease belongs to the kernel's server, for all of its kernels: it cannot be {what} here.",
            hint=_HINT,
        )


def take_part(shell: Any, text: str) -> None:
    """Put this kernel under what its server's lease asks of each process, and follow the lease."""
    try:
        told = decode(text.encode(), SliceDoc)
        process = this_process()
        settings = AppliedSettings()
        _put_back(told.before)
        settings.apply(told.reply, installed() if told.lease.kind is DeviceKind.CUDA else None)
        _ = process.client  # found, so that the lease is followed; it is asked nothing here
        process.hold(SharedLease(process, told.lease, settings), cell_runs=False)
    except GPUPoolError as error:
        print(  # noqa: T201 - standard error is the place for it
            f"gpupool: this kernel does not know its server's lease: {error}", file=sys.stderr
        )


def _put_back(before: Mapping[str, str | None]) -> None:
    """Undo what was inherited of the server's variables: they are set anew, and can be taken back."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def of_server(process: Process, body: LeaseRequest) -> Lease | None:
    """Return the server's lease where that is what was asked for; None where the pool is to be asked.

    Raises
    ------
    ServersLease
        If more was asked for than the server has.
    """
    for lease in list(process.held.values()):
        if not isinstance(lease, SharedLease) or not _is_meant(lease.doc, body):
            continue
        with suppress(PoolUnreachable):  # while the pool is away, what was leased holds
            lease.refresh()
        if lease.state not in _OVER:
            _check(lease.doc, body)
            return lease
    return None


def _is_meant(doc: LeaseDoc, body: LeaseRequest) -> bool:
    """Tell whether a request could be for a lease's devices: it names no other kind, device or model."""
    if body.kind not in (None, doc.kind):
        return False
    known = {doc.device, *(it.device_id for it in doc.shares), *(it.device_name for it in doc.shares)}
    return body.device in ("", *known) and body.model in ("", doc.model)


def _check(doc: LeaseDoc, body: LeaseRequest) -> None:
    has, wanted = doc.compute_milli * doc.count, body.compute_milli * body.count
    if wanted > has or body.count > doc.count:
        raise ServersLease(
            f"This kernel's server has {format_compute(doc.compute_milli)} of {doc.device} for all of its "
            f"kernels, and {format_compute(body.compute_milli)}{_times(body.count)} was asked for.",
            hint=_HINT,
        )
    if doc.memory_bytes is not None and (body.memory_bytes or 0) > doc.memory_bytes:
        raise ServersLease(
            f"This kernel's server has {format_memory(doc.memory_bytes)} of {doc.device} for all of its "
            f"kernels, and {format_memory(body.memory_bytes)} was asked for.",
            hint=_HINT,
        )


def _times(count: int) -> str:
    return f" of {count} devices" if count > 1 else ""
