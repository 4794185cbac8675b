"""After a kernel's restart its session cluster is there again, with ``cluster`` and ``client``.

Rules of this module: what ``gpupool.scale`` was told last is kept, and what it was told counts, not who has
joined; nobody waits for workers here; a failure is one sentence, and the cell runs all the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.wording import plural
from jupyter_gpupool.kernel import scaled
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.snapshots.leftovers import started
from jupyter_gpupool.sessions.shape import Wish, check_workers
from jupyter_gpupool.sessions.wish import WorkerWish

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster


class Scaled(msgspec.Struct, kw_only=True, frozen=True):
    """What was asked for, and by which process.

    Attributes
    ----------
    workers : Wish
        How many.
    each : WorkerWish
        What each of them asks the pool for.
    pid : int
        The kernel's process.
    protocol : str
        How they speak.
    started : str
        When that began, as the system says: another process may get the number later.
    """

    workers: Wish
    each: WorkerWish
    pid: int
    started: str
    protocol: str = "tls"


def keep(shell: Any, cluster: GPUPoolCluster, workers: Wish) -> None:
    """Keep for the kernel's next process what this one has; nothing where it has no workers."""
    if workers.most == 0:
        scaled.forget(shell)
        return
    pid = os.getpid()
    kept = Scaled(
        workers=workers, each=cluster.wish, protocol=cluster.protocol, pid=pid, started=started(pid)
    )
    scaled.keep(shell, msgspec.json.encode(kept))


def scale_again(shell: Any, data: bytes) -> None:
    """Ask for the workers that the kernel's process before had, and put ``cluster`` and ``client`` there."""
    from jupyter_gpupool.sessions import api

    try:
        found = msgspec.json.decode(data, type=Scaled)
        check_workers(found.workers.most)
    except (msgspec.MsgspecError, GPUPoolError):
        scaled.forget(shell)
        return
    if started(found.pid) == found.started:
        return  # that process lives, so this is not its restart
    try:
        api.scale_again(found.workers, found.each, found.protocol)
    except (GPUPoolError, OSError) as error:
        tell(f"This kernel has restarted without its workers: {error} `%gpupool scale` asks for them.")
        return
    tell(f"{_asked_again(found)}; `cluster` and `client` are there.")


def _asked_again(found: Scaled) -> str:
    """Write "1 worker with a share of 0.25 is asked for again"."""
    wanted = found.workers
    many = plural(wanted.most, "worker", "workers")
    if wanted.adaptive:
        many = f"{wanted.least} to {many}"
    verb = "is" if wanted.most == 1 else "are"
    return f"{many} with a share of {found.each.share} {verb} asked for again"
