"""After a kernel's restart: its new process takes the lease over that the old one held.

Rule of this module: bounded, because the kernel is starting; a failure is one sentence, and the kernel starts
all the same.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.kernel.acquire import Acquisition
from jupyter_gpupool.kernel.errors import RequestEnded
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.notices import tell, tell_with_first_cell
from jupyter_gpupool.kernel.process import Process, this_process
from jupyter_gpupool.kernel.progress import PlainLines
from jupyter_gpupool.protocol.documents import LeaseDoc

#: How long a restarted kernel waits for its lease, all in all, seconds.
REATTACH_SECONDS = 10.0


def reattach(shell: Any, lease_ids: list[str]) -> None:
    """Attach this process to the leases of the kernel's previous one."""
    process = this_process()
    deadline = time.monotonic() + REATTACH_SECONDS
    for lease_id in filter(None, (text.strip() for text in lease_ids)):
        try:
            _take_over(process, lease_id, deadline)
        except GPUPoolError as error:
            _warn(shell, f"This kernel restarted without its lease {lease_id}: {error}")


def _warn(shell: Any, sentence: str) -> None:
    """Say it in the kernel's log, and once more above the first cell: nobody listens to a starting kernel."""
    said = f"{sentence} `%gpupool request` asks for a new one."
    tell(said)
    tell_with_first_cell(shell, said)


def _take_over(process: Process, lease_id: str, deadline: float) -> None:
    """Wait until the lease expects this process, and attach."""
    doc = _await_attaching(process, lease_id, deadline)
    doc, settings = Acquisition(process.client, PlainLines(sys.stderr)).resume(doc, deadline)
    process.hold(Lease(process, doc, settings), cell_runs=False)


def _await_attaching(process: Process, lease_id: str, deadline: float) -> LeaseDoc:
    """Wait until the pool has seen the old process end."""
    doc = process.client.lease(lease_id)
    while doc.state is not LeaseState.ATTACHING:
        left = deadline - time.monotonic()
        if doc.state in (LeaseState.ENDING, LeaseState.ENDED):
            raise RequestEnded(f"it ended ({doc.end_detail or 'the kernel did not come back in time'}).")
        if left <= 0:
            raise RequestEnded("the pool still counts the old process as its holder.")
        doc = process.client.lease(lease_id, since=doc.tag, wait_seconds=min(1.0, left))
    return doc
