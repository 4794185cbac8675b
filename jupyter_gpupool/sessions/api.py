"""``gpupool.scale``: the session cluster of this process, made when it is first needed.

Rule of this module: there is one cluster for each process, and one client of it.
"""

from __future__ import annotations

from typing import Any

from distributed import Client
from distributed.core import Status

from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.kernel.scaled import forget
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.sessions.again import keep
from jupyter_gpupool.sessions.cluster import GPUPoolCluster
from jupyter_gpupool.sessions.errors import NoCluster, OtherWorkers
from jupyter_gpupool.sessions.shape import Wish, parse_workers
from jupyter_gpupool.sessions.wire import TLS, UNENCRYPTED
from jupyter_gpupool.sessions.wish import WorkerWish
from jupyter_gpupool.state.graph.lost import is_lost

#: The share of each worker where nobody says.
SHARE = 0.25
#: How long it is waited for workers that start, seconds.
SETTLE_SECONDS = 30.0


def scale(
    workers: str | int,
    *,
    share: str | float | None = None,
    protocol: str | None = None,
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
    protocol : str, optional
        How they speak: ``tls`` (without it); or ``ucx``, without keys, where distributed-ucxx is installed.
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
        cluster = _made(WorkerWish.read(SHARE if share is None else share, **lease), protocol or TLS)
        if cluster.protocol != TLS:
            tell(UNENCRYPTED)
    else:
        _check_protocol(cluster, protocol)
        if share is not None or any(value is not None for value in lease.values()):
            cluster = _sized(cluster, WorkerWish.read(SHARE if share is None else share, **lease))
    cluster.made_again = False
    _have(cluster, wanted)
    cluster.settle(SETTLE_SECONDS)
    if cluster.refusal is not None and not cluster.workers and wanted.most:
        raise cluster.refusal
    return cluster


def scale_again(workers: Wish, each: WorkerWish, protocol: str) -> None:
    """Have the workers that this kernel had before it was started again; waits for none of them."""
    if _living() is None:
        cluster = _made(each, protocol)
        cluster.made_again = True
        _have(cluster, workers)


def _made(each: WorkerWish, protocol: str) -> GPUPoolCluster:
    """Make the cluster of this process."""
    cluster = GPUPoolCluster(each, protocol=protocol)
    cluster.on_close = lambda: forget(running_shell())
    this_process().cluster = cluster
    return cluster


def _sized(cluster: GPUPoolCluster, each: WorkerWish) -> GPUPoolCluster:
    """Return a cluster whose workers are of this size; one that nobody has asked for yet gives way."""
    if cluster.made_again and each != cluster.wish:
        cluster.close()
        return _made(each, cluster.protocol)
    cluster.check_wish(each)
    return cluster


def _check_protocol(cluster: GPUPoolCluster, protocol: str | None) -> None:
    """Refuse to let a cluster speak otherwise than it does."""
    if protocol and protocol[:3] != cluster.protocol[:3]:
        raise OtherWorkers(
            f"This cluster speaks {cluster.protocol}, and all of its parts do.",
            hint="`cluster.close()` ends it; then scale anew.",
        )


def _have(cluster: GPUPoolCluster, wanted: Wish) -> None:
    """Ask for workers, show the cluster in the notebook, and keep for a restart what was asked for."""
    cluster.troubles.clear()
    if wanted.adaptive:
        cluster.adapt(minimum=wanted.least, maximum=wanted.most)
        cluster.scale(max(wanted.least, min(len(cluster.workers), wanted.most)))
    else:
        cluster.stop_adapting()
        cluster.scale(wanted.most)
    _introduce(cluster)
    keep(running_shell(), cluster, wanted)


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
    there = names.get(name)
    # what a restore leaves for a cluster or client of before is nobody's value
    if is_lost(there) or isinstance(there, Client | GPUPoolCluster | type(None)):
        names[name] = value
    else:
        tell(f"Your variable `{name}` was left alone; `gpupool.scale(…)` returns the cluster.")
