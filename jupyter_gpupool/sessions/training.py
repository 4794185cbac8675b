"""Training on a session cluster: ranks on its workers, and how many of them at which point.

Rules of this module: torch is imported in the workers, and here by nobody; the number of ranks changes
between epochs only, and what goes on from one number to the next, and after a worker was lost, is what the
training itself has saved.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed import Client, get_worker, wait
from distributed.metrics import time

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.wording import plural
from jupyter_gpupool.sessions.errors import RanksLost, TooFewWorkers
from jupyter_gpupool.sessions.meeting import interface_of, meeting, store
from jupyter_gpupool.sessions.words import summary

if TYPE_CHECKING:
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster

#: Says how many workers an epoch is trained on: ``(epoch, epochs) -> workers``, epochs counted from 0.
Policy = Callable[[int, int], int]

#: Parts of a training until which it has twice the workers, and the usual number; half of it for the rest.
DOUBLE_UNTIL, BASE_UNTIL = 0.3, 0.8
#: How long workers may take to come, seconds.
_COME_SECONDS = 600.0
#: How often it is looked whether a rank's worker is gone, seconds.
_LOOK_SECONDS = 0.5
#: How long after an error of a rank it may turn out that another one's worker is gone, seconds.
_LOST_SECONDS = 5.0
#: How long it may take until an ended worker is known to be gone, seconds.
_GONE_SECONDS = 60.0


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


def segments(policy: Policy, epochs: int, longest: int = 0) -> Iterator[tuple[range, int]]:
    """Yield runs of epochs with the same number of workers, in order; at most ``longest`` long, if given."""
    begin = 0
    for epoch in range(1, epochs + 1):
        over = epoch == epochs or epoch - begin == longest
        if over or policy(epoch, epochs) != policy(begin, epochs):
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
    save_every: int = 0,
    losses: int = 5,
) -> list[Any]:
    """Train with as many workers as a policy says, and scale at the boundaries of epochs.

    When a worker dies, or its node or its lease is lost, the run of epochs that it was in begins anew with
    another one, from what the run before has saved.

    Parameters
    ----------
    cluster : GPUPoolCluster
        Whose workers are used; nothing else should scale it meanwhile.
    client : distributed.Client
        A client of it.
    work : callable
        Called on each rank as ``work(rank, *arguments)`` with torch's process group ready. It loads what the
        ranks before have saved, trains those of ``rank.epochs`` that this has not seen, and has rank 0 save
        at once and whole (write beside, then rename), where the next ranks can load it.
    *arguments
        Further ones.
    epochs : int
        How many in all.
    policy : Policy
        How many workers for which.
    backend : str
        Of ``torch.distributed``: ``gloo``, or ``nccl`` on CUDA.
    save_every : int
        The longest run of epochs: what is saved at its end is the most that is lost with a worker. 0 for as
        long as the number of workers stays.
    losses : int
        After how many losses of workers it is given up.

    Returns
    -------
    list
        What rank 0 returned for each run of epochs.

    Raises
    ------
    TooFewWorkers
        If they do not come.
    RanksLost
        If workers are lost again and again.
    """
    results, left = [], losses
    for run, number in segments(policy, epochs, save_every):
        result, left = _trained(_Attempt(cluster, client, backend), work, arguments, run, number, left)
        results.append(result)
    return results


def _trained(
    attempt: _Attempt,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    run: range,
    number: int,
    losses: int,
) -> tuple[Any, int]:
    """Run some epochs until they are trained; return what came of it, and how many losses are left."""
    while True:
        _have(attempt.cluster, number)
        try:
            return attempt.result(work, arguments, run, number), losses
        except RanksLost as lost:
            attempt.cluster.note(str(lost))
            if not losses:
                raise
            losses -= 1
            attempt.clear()


def _have(cluster: GPUPoolCluster, number: int) -> None:
    """Scale to so many workers, and wait for them."""
    cluster.scale(number)
    if not cluster.wait_joined(number, _COME_SECONDS):
        said = " ".join([summary(cluster), *cluster.troubles])
        raise TooFewWorkers(f"This training needs {number} workers now. {said}", hint="Ask for fewer.")


@dataclass
class _Attempt:
    """One try to run some epochs, a rank on each of some workers."""

    cluster: GPUPoolCluster
    client: Client
    backend: str
    #: The ranks, by the name of the worker that each is on.
    futures: dict[str, Any] = field(default_factory=dict)

    def result(self, work: Callable[..., Any], arguments: tuple[Any, ...], run: range, number: int) -> Any:
        """Run the ranks, and return what the first one returned.

        Raises
        ------
        RanksLost
            If one of their workers is gone.
        """
        joined, name = self.cluster.observed, uuid.uuid4().hex
        known = _workers(self.client).items()
        wanted = [(address, info["name"]) for address, info in known if info["name"] in joined][:number]
        with meeting(self.cluster.scheduler, name):
            for rank, (address, worker) in enumerate(wanted):
                self.futures[worker] = self.client.submit(
                    _as_rank,
                    Rank(rank, number, run.start, run.stop - 1),
                    name,
                    self.backend,
                    work,
                    arguments,
                    workers=[address],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                )
            ranks = list(self.futures.values())
            self._check(run, number)
            while not all(it.status == "finished" for it in ranks):
                _settle([it for it in ranks if not it.done()])
                self._check(run, number)
            first = ranks[0].result()
        self.client.cancel(ranks)
        return first

    def _check(self, run: range, number: int) -> None:
        """Raise what keeps the ranks from ending."""
        failed = [it for it in self.futures.values() if it.status in ("error", "cancelled", "lost")]
        until = time() + _LOST_SECONDS
        while not (lost := self.futures.keys() - self.cluster.observed) and failed and time() < until:
            _settle([it for it in self.futures.values() if not it.done()])
        if lost or len(self.futures) < number:
            raise RanksLost(
                f"{plural(max(1, len(lost)), 'worker is', 'workers are')} gone: epochs {run.start + 1} to"
                f" {run.stop} begin anew."
            )
        if failed:
            self.client.cancel([it for it in self.futures.values() if it is not failed[0]])
            failed[0].result()

    def clear(self) -> None:
        """End the workers of all ranks: one that waited for another cannot be trusted to meet anew."""
        self.client.cancel(list(self.futures.values()))
        names, self.futures = set(self.futures), {}
        for name in names:
            if (worker := self.cluster.workers.get(name)) is not None:
                self.cluster.loop.add_callback(worker.kill)
        until = time() + _GONE_SECONDS
        while names & self.cluster.observed and time() < until:
            _pause()


def _settle(futures: list[Any]) -> None:
    """Wait a moment, or until one of some tasks has ended."""
    if not futures:
        _pause()
        return
    with contextlib.suppress(TimeoutError):
        wait(futures, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")


def _pause() -> None:
    threading.Event().wait(_LOOK_SECONDS)


def _workers(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def _as_rank(
    rank: Rank, name: str, backend: str, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Do the work of one rank, in a worker."""
    import torch.distributed as ranks

    worker = get_worker()
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(variable, interface_of(worker.address))
    if ranks.is_initialized():
        ranks.destroy_process_group()  # of a training that was interrupted
    place = store(worker, name)  # torch's own server listens to everybody
    ranks.init_process_group(backend, store=place, rank=rank.rank, world_size=rank.world_size)
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
