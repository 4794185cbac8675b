"""``gpupool.scale``: the session cluster of this process, made when it is first needed.

Rule of this module: there is one cluster for each process, and one client of it.
"""

from __future__ import annotations

from typing import Any

from distributed import Client
from distributed.core import Status

from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.sessions.cluster import GPUPoolCluster
from jupyter_gpupool.sessions.errors import NoCluster
from jupyter_gpupool.sessions.shape import parse_workers
from jupyter_gpupool.sessions.wish import WorkerWish

#: The share of each worker where nobody says.
SHARE = 0.25
#: How long it is waited for workers that start, seconds.
SETTLE_SECONDS = 30.0


def scale(
    workers: str | int,
    *,
    share: str | float | None = None,
    **lease: Any,
) -> GPUPoolCluster:
    """Have so many workers in the session cluster of this process, each on a lease of its own.

    In a notebook the cluster and a client of it are there as ``cluster`` and ``client`` afterwards.

    Parameters
    ----------
    workers : str or int
        ``4``; or ``"2:8"``, to follow the load between these bounds; or ``0``, to give all of them back when
        they have finished.
    share : str or float, optional
        Part of a device for each worker, as `request` takes it; without it a quarter, and what the present
        workers have where there are any.
    **lease
        ``memory``, ``kind``, ``device``, ``cpus``, ``host_memory``, ``model`` and ``priority`` of each
        worker's lease, as `request` takes them.

    Returns
    -------
    GPUPoolCluster
        Of which every worker runs, or waits in the queue, or was refused (see its ``troubles``).

    Raises
    ------
    GPUPoolError
        If it cannot be understood, or is more than a session cluster has, or there are workers of another
        size, or each worker asked for was refused.
    """
    wanted = parse_workers(workers)
    cluster = _living()
    if cluster is None:
        if wanted.most == 0:
            raise NoCluster("This process has no workers.", hint="`%gpupool scale 2` asks for two.")
        cluster = GPUPoolCluster(SHARE if share is None else share, **lease)
        this_process().cluster = cluster
    elif share is not None or any(value is not None for value in lease.values()):
        cluster.check_wish(WorkerWish.read(SHARE if share is None else share, **lease))
    cluster.troubles.clear()
    if wanted.adaptive:
        cluster.adapt(minimum=wanted.least, maximum=wanted.most)
        cluster.scale(max(wanted.least, min(len(cluster.workers), wanted.most)))
    else:
        cluster.stop_adapting()
        cluster.scale(wanted.most)
    _introduce(cluster)
    cluster.settle(SETTLE_SECONDS)
    if cluster.refusal is not None and not cluster.workers and wanted.most:
        raise cluster.refusal
    return cluster


def _living() -> GPUPoolCluster | None:
    """Return this process's cluster, if it has not been closed."""
    cluster = this_process().cluster
    alive = isinstance(cluster, GPUPoolCluster) and cluster.status is Status.running
    return cluster if alive else None


def _introduce(cluster: GPUPoolCluster) -> None:
    """Put the cluster and a client of it into the notebook's namespace, in nobody's place."""
    shell = running_shell()
    if shell is None:
        return
    names: dict[str, Any] = shell.user_ns  # type: ignore[attr-defined]
    client = names.get("client")
    if not (isinstance(client, Client) and client.cluster is cluster and client.status == "running"):
        _place(names, "client", cluster.get_client())
    if names.get("cluster") is not cluster:
        _place(names, "cluster", cluster)


def _place(names: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(names.get(name), Client | GPUPoolCluster | type(None)):
        names[name] = value
    else:
        tell(f"Your variable `{name}` was left alone; `gpupool.scale(…)` returns the cluster.")
