"""Training on a session cluster: ranks on its workers, and how many of them at which point.

Rules of this module: torch is imported in the workers, and here by nobody; the number of ranks changes
between epochs only, and what goes on from one number to the next is what the training itself has saved.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Client, as_completed

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.sessions.errors import TooFewWorkers
from jupyter_gpupool.sessions.words import summary

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster

#: Says how many workers an epoch is trained on: ``(epoch, epochs) -> workers``, epochs counted from 0.
Policy = Callable[[int, int], int]

#: Parts of a training until which it has twice the workers, and the usual number; half of it for the rest.
DOUBLE_UNTIL, BASE_UNTIL = 0.3, 0.8
#: How long workers may take to come, seconds.
_COME_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a training.

    Attributes
    ----------
    rank, world_size : int
        Which, of how many.
    first_epoch, last_epoch : int
        The epochs to train now; the last one included.
    """

    rank: int
    world_size: int
    first_epoch: int
    last_epoch: int

    @property
    def epochs(self) -> range:
        """The epochs to train now."""
        return range(self.first_epoch, self.last_epoch + 1)


def by_progress(base: int) -> Policy:
    """Return the policy that explores broadly and refines calmly.

    Parameters
    ----------
    base : int
        The usual number of workers.

    Returns
    -------
    Policy
        Twice as many in the first 30 % of the epochs, ``base`` until 80 %, half of it (at least one) for the
        rest.
    """
    if base < 1:
        raise InvalidValue(f"{base} workers cannot train anything.", hint="Give at least 1.")

    def workers(epoch: int, epochs: int) -> int:
        progress = epoch / epochs
        if progress < DOUBLE_UNTIL:
            return 2 * base
        return base if progress < BASE_UNTIL else max(1, base // 2)

    return workers


def segments(policy: Policy, epochs: int) -> Iterator[tuple[range, int]]:
    """Yield runs of epochs with the same number of workers, in order."""
    begin = 0
    for epoch in range(1, epochs + 1):
        if epoch == epochs or policy(epoch, epochs) != policy(begin, epochs):
            yield range(begin, epoch), policy(begin, epochs)
            begin = epoch


def train(
    cluster: GPUPoolCluster,
    client: Client,
    work: Callable[..., Any],
    *arguments: Any,
    epochs: int,
    policy: Policy,
    backend: str = "gloo",
) -> list[Any]:
    """Train with as many workers as a policy says, and scale at the boundaries of epochs.

    Parameters
    ----------
    cluster : GPUPoolCluster
        Whose workers are used; nothing else should scale it meanwhile.
    client : distributed.Client
        A client of it.
    work : callable
        Called on each rank as ``work(rank, *arguments)`` with torch's process group ready. It loads what the
        ranks before have saved, trains ``rank.epochs``, and has rank 0 save.
    *arguments
        Further ones.
    epochs : int
        How many in all.
    policy : Policy
        How many workers for which.
    backend : str
        Of ``torch.distributed``: ``gloo``, or ``nccl`` on CUDA.

    Returns
    -------
    list
        What rank 0 returned for each run of epochs with one number of workers.

    Raises
    ------
    TooFewWorkers
        If they do not come.
    """
    results = []
    for run, number in segments(policy, epochs):
        cluster.scale(number)
        if not cluster.wait_joined(number, _COME_SECONDS):
            said = " ".join([summary(cluster), *cluster.troubles])
            raise TooFewWorkers(f"This training needs {number} workers now. {said}", hint="Ask for fewer.")
        results.append(_run_ranks(cluster, client, work, arguments, run, number, backend))
    return results


def _run_ranks(
    cluster: GPUPoolCluster,
    client: Client,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    run: range,
    number: int,
    backend: str,
) -> Any:
    """Run one rank on each of so many workers, and return what the first one returned."""
    joined = cluster.observed
    wanted = [address for address, info in _workers(client).items() if info["name"] in joined]
    with tempfile.TemporaryDirectory(prefix="jupyter_gpupool-ranks-") as place:
        futures = [
            client.submit(
                _as_rank,
                Rank(rank, number, run.start, run.stop - 1),
                str(Path(place) / "store"),
                backend,
                work,
                arguments,
                workers=[address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            for rank, address in enumerate(wanted[:number])
        ]
        try:
            for ended in as_completed(futures):
                ended.result()  # the others may wait for one that failed
            return futures[0].result()
        finally:
            client.cancel(futures)


def _workers(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def _as_rank(
    rank: Rank, store: str, backend: str, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Do the work of one rank, in a worker."""
    import torch.distributed as ranks

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the workers are on one node
    if ranks.is_initialized():
        ranks.destroy_process_group()  # of a training that was interrupted
    meeting = ranks.FileStore(store, rank.world_size)  # a file: torch's own server listens to everybody
    ranks.init_process_group(backend, store=meeting, rank=rank.rank, world_size=rank.world_size)
    try:
        return work(rank, *arguments)
    finally:
        with contextlib.suppress(RuntimeError):
            ranks.destroy_process_group()


def precision(capability: tuple[int, int] | None) -> str:
    """Choose the floating-point type for mixed precision by a device's CUDA capability.

    Parameters
    ----------
    capability : tuple of int or None
        As ``torch.cuda.get_device_capability()`` says; None where there is no CUDA device.

    Returns
    -------
    str
        ``bfloat16`` from 8.0 on, ``float16`` from 7.0 on (with a gradient scaler), else ``float32``.
    """
    if capability is None or capability < (7, 0):
        return "float32"
    return "bfloat16" if capability >= (8, 0) else "float16"
