"""How a session cluster stands, in words, for a terminal and for a notebook.

Rule of this module: what waits is shown with the pool's own reason.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from jupyter_gpupool.core.wording import plural
from jupyter_gpupool.kernel.render import Rendering, Table, tables
from jupyter_gpupool.sessions.leased import LeasedWorker, Stage

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster


def summary(cluster: GPUPoolCluster) -> str:
    """Say in one sentence how many workers there are."""
    workers = list(cluster.workers.values())
    if not workers:
        leaving = f"; {len(cluster.leaving)} finish what they run" if cluster.leaving else ""
        return f"The cluster has no workers{leaving}. `%gpupool scale 2` asks for two."
    running = sum(it.stage is Stage.RUNNING for it in workers)
    waiting = sum(it.stage is Stage.WAITING for it in workers)
    starting = len(workers) - running - waiting
    parts = [
        f"{running} of {plural(len(workers), 'worker', 'workers')} with a share of {cluster.wish.share} "
        f"{'runs' if running == 1 else 'run'}"
    ]
    parts += [f"{waiting} {'waits' if waiting == 1 else 'wait'} for a lease"] if waiting else []
    parts += [f"{starting} {'starts' if starting == 1 else 'start'}"] if starting else []
    parts += [f"{len(cluster.leaving)} more finish what they run"] if cluster.leaving else []
    return ", ".join(parts) + "."


def show(cluster: GPUPoolCluster) -> Rendering:
    """Show all workers, what went wrong of late, and the names in the notebook."""
    rows = [_row(it) for it in [*cluster.workers.values(), *cluster.leaving.values()]]
    table = Table("Workers of this kernel", ("worker", "state", "has", "lease"), rows, empty="none")
    return tables([table], [summary(cluster), *cluster.troubles])


def _row(worker: LeasedWorker) -> tuple[str, ...]:
    state = f"{worker.stage.value}: {worker.reason}" if worker.reason else worker.stage.value
    return worker.name, state, worker.share or "-", f"…{worker.lease_id[-8:]}" if worker.lease_id else "-"


def status_rows(cluster: GPUPoolCluster) -> str:
    """Return rows for the table of Dask's own display."""
    lines = [
        summary(cluster),
        *(it.reason for it in cluster.workers.values() if it.reason),
        *cluster.troubles,
    ]
    shown = "<br>".join(html.escape(line) for line in dict.fromkeys(lines))
    return f'<tr><td colspan="2" style="text-align: left;"><strong>Leases:</strong> {shown}</td></tr>'
