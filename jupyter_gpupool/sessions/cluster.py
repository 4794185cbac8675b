"""`GPUPoolCluster`: a Dask cluster whose workers are leases.

Rules of this module: the cluster's loop owns all of its state; what is wanted is a set of workers, each with
a coroutine of its own, and whoever ends by himself is replaced; nothing waits for a worker that waits.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import logging
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from distributed import Scheduler
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster
from distributed.metrics import time
from distributed.utils import NoOpAwaitable, silence_logging_cmgr

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.names import ENV_SESSION_HOST
from jupyter_gpupool.sessions.adaptive import PoolAdaptive
from jupyter_gpupool.sessions.desk import PoolDesk
from jupyter_gpupool.sessions.elsewhere import PoolLauncher
from jupyter_gpupool.sessions.errors import SessionError, WorkerFailed
from jupyter_gpupool.sessions.home import Home, this_home
from jupyter_gpupool.sessions.launcher import LocalLauncher, WorkerLauncher
from jupyter_gpupool.sessions.leased import End, LeasedWorker, Stage
from jupyter_gpupool.sessions.retiring import retire
from jupyter_gpupool.sessions.shape import capacity, check_workers
from jupyter_gpupool.sessions.watching import Watching
from jupyter_gpupool.sessions.wire import TLS, wire
from jupyter_gpupool.sessions.wish import WorkerWish
from jupyter_gpupool.sessions.words import status_rows

logger = logging.getLogger(__name__)

#: A worker that lived shorter than this is replaced after a pause, seconds.
STEADY_SECONDS = 10.0
#: The pause before it is, seconds; it doubles up to the longest.
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
#: So many workers in a row that never joined are enough to see that none will.
MOST_FAILURES = 3
#: How long tasks of a worker that is given back may go on, seconds.
FINISH_SECONDS = 600.0
#: How many sentences are remembered.
_TROUBLES = 8
#: Where a scheduler listens that no other node has to reach.
_LOOPBACK = "127.0.0.1"
#: How long the end of the process waits for its clusters, seconds.
_EXIT_SECONDS = 5.0

_living: weakref.WeakSet[GPUPoolCluster] = weakref.WeakSet()


class GPUPoolCluster(Cluster):  # type: ignore[misc]
    """A Dask cluster of this process alone: its scheduler is here, its workers hold a lease each.

    Parameters
    ----------
    share : str or float or WorkerWish
        Part of a device for each worker, as `request` takes it; or all that each worker asks for.
    n_workers : int
        How many to begin with.
    finish_seconds : float or None
        How long the tasks of a worker that is given back may go on; None for as long as they do.
    launcher : WorkerLauncher, optional
        Starts the workers' processes; without it they are children of this process, or started by the pool
        on other nodes.
    host : str, optional
        Address of this machine that other nodes reach: the scheduler listens there, and workers may be on
        them. Without it, ``JUPYTER_GPUPOOL_SESSION_HOST``, which a kernel that the pool started has; else
        loopback, and workers are on this node only.
    name : str, optional
        Of the cluster.
    protocol : str
        ``tls``; or ``ucx``, where distributed-ucxx is installed: without keys, on a network of your own only.
    asynchronous, loop, quiet, silence_logs
        As other Dask clusters have them.
    **lease
        ``memory``, ``kind``, ``device``, ``cpus``, ``host_memory``, ``model`` and ``priority`` of each
        worker's lease, as `request` takes them.

    Examples
    --------
    >>> cluster = GPUPoolCluster(share=0.25, n_workers=2)  # doctest: +SKIP
    >>> client = Client(cluster)  # doctest: +SKIP
    >>> cluster.adapt(minimum=1, maximum=4)  # doctest: +SKIP
    """

    def __init__(
        self,
        share: str | float | WorkerWish = 0.25,
        n_workers: int = 0,
        *,
        finish_seconds: float | None = FINISH_SECONDS,
        launcher: WorkerLauncher | None = None,
        host: str | None = None,
        name: str | None = None,
        protocol: str = TLS,
        asynchronous: bool = False,
        loop: Any = None,
        quiet: bool = True,
        silence_logs: int = logging.WARNING,
        **lease: Any,
    ) -> None:
        self.status = Status.closed  # until it is complete: what is refused here leaves nothing to close
        check_workers(n_workers)
        self.wish = share if isinstance(share, WorkerWish) else WorkerWish.read(share, **lease)
        #: Called when somebody closes it, and not when its process ends.
        self.on_close: Callable[[], None] | None = None
        #: Whether it is there because its kernel had one before a restart, and nobody has scaled it since.
        self.made_again = False
        self.home: Home = this_home()
        self.protocol, self.security = wire(protocol)
        self.scheduler: Any = None
        #: The workers that are wanted, by name, whether they have joined or not.
        self.workers: dict[str, LeasedWorker] = {}
        #: Those that are not, but have something to finish.
        self.leaving: dict[str, LeasedWorker] = {}
        #: What went wrong of late, in sentences.
        self.troubles: deque[str] = deque(maxlen=_TROUBLES)
        #: Why the pool last refused a worker; None since somebody scaled.
        self.refusal: GPUPoolError | None = None
        #: When the pool last refused a worker, by `distributed.metrics.time`.
        self.refused_at = -math.inf
        #: How many workers of this kind the pool has room for when it is empty.
        self.capacity = capacity(
            self.home.devices(), self.wish.kind, self.wish.compute_milli, self.wish.count
        )
        self._target = n_workers
        self._finish_seconds = finish_seconds
        self._launcher = launcher
        self._host = host or os.environ.get(ENV_SESSION_HOST) or _LOOPBACK
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures = 0
        self._short_lives = 0
        self._quiet = contextlib.ExitStack()
        if silence_logs:
            self._quiet.enter_context(silence_logging_cmgr(silence_logs))
        super().__init__(asynchronous=asynchronous, loop=loop, quiet=quiet, name=name)
        _living.add(self)
        if not self.called_from_running_loop:
            self._loop_runner.start()
            try:
                self.sync(self._start)
            except BaseException:
                self._loop_runner.stop()
                raise

    # --- its beginning and its end ---

    async def _start(self) -> None:
        if self.status is not Status.created:
            return
        self.status = Status.starting
        self._desk = PoolDesk(self.home.connection, self.home.find)
        if self._launcher is None:
            self._launcher = LocalLauncher() if self._host == _LOOPBACK else PoolLauncher(self._desk)
        try:
            self.scheduler = await Scheduler(
                host=self._host,
                protocol=self.protocol,
                port=0,
                security=self.security,
                dashboard_address="127.0.0.1:0",
                dashboard=_has_bokeh(),
            )
            self.scheduler_comm = rpc(
                self.scheduler.address, connection_args=self.security.get_connection_args("client")
            )
            await super()._start()
        except BaseException:
            self.status = Status.failed
            await self._close()
            raise
        self._spawn(Watching(self, self._desk).watch())
        self.grow()

    def __await__(self) -> Any:
        async def begun() -> GPUPoolCluster:
            await self._start()
            return self

        return begun().__await__()

    async def _close(self) -> None:
        if self.status in (Status.closing, Status.closed):
            return
        self.status = Status.closing
        if self._adaptive is not None:
            self._adaptive.stop(reason="cluster-closed")
        living = [*self.workers.values(), *self.leaving.values()]
        self.workers.clear()
        for worker in living:
            self.leaving[worker.name] = worker
            worker.leave()
        lives = {task for task in self._tasks if task.get_name() == _LIFE}
        for task in self._tasks - lives:
            task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._desk.close()
        with contextlib.suppress(OSError):
            await super()._close()
        if self.scheduler is not None:
            await self.scheduler.close()
        self._quiet.close()
        _living.discard(self)

    def close(self, timeout: float | None = None) -> Any:
        """End all workers at once, give their leases back, and end the scheduler."""
        if self.on_close is not None:
            self.on_close()
        closing = super().close(timeout)
        if not self.asynchronous:
            self._loop_runner.stop()
        return closing

    def kill(self) -> None:
        """End all workers' processes now; waits for nothing."""
        for worker in [*self.workers.values(), *self.leaving.values()]:
            worker.kill()

    @property
    def dashboard_link(self) -> str:
        """Where Dask's dashboard is; empty without bokeh, which it needs."""
        return str(super().dashboard_link) if _has_bokeh() else ""

    # --- how many workers ---

    @property
    def observed(self) -> set[str]:
        """Names of the workers that have joined and are wanted."""
        return {info["name"] for info in self.scheduler_info["workers"].values()} & self.workers.keys()

    def scale(self, n: int = 0) -> Any:
        """Have so many workers: ask for further ones, or give some back when they have finished.

        Parameters
        ----------
        n : int
            How many; returns at once, and `settle` waits.

        Raises
        ------
        TooManyWorkers
            If it is more than a session cluster has.
        """
        check_workers(n)
        self.loop.add_callback(self._scale, n)
        return NoOpAwaitable() if self.asynchronous else None

    def adapt(self, Adaptive: Any = PoolAdaptive, **options: Any) -> Any:  # noqa: N803 - as Dask names it
        """Follow the load from now on; with a hard maximum, always.

        Parameters
        ----------
        Adaptive : type
            A subclass of `PoolAdaptive`.
        **options
            ``minimum``, ``maximum`` and the others of `PoolAdaptive`.
        """
        for bound in (options.get("minimum"), options.get("maximum")):
            if bound is not None and not math.isinf(bound):
                check_workers(int(bound))
        return super().adapt(Adaptive=Adaptive, **options)

    def stop_adapting(self) -> None:
        """Keep the number of workers as it is."""
        if self._adaptive is not None:
            self.loop.add_callback(self._adaptive.stop, "scaled-by-hand")

    async def scale_down(self, workers: Iterable[str]) -> None:
        """Give some workers back, by name."""
        names = [name for name in workers if name in self.workers]
        self._target -= len(names)
        self.let_go(names)

    def _scale(self, n: int) -> None:
        if self.status is not Status.running:
            return
        self._target, self.refusal = n, None
        self.let_go(self._least_useful(max(0, len(self.workers) - n)))
        self.grow()

    def grow(self) -> None:
        """Ask for as many workers as there are too few."""
        while len(self.workers) < self._target and self.status is Status.running:
            name = f"{self.name}-{next(self._numbers)}"
            worker = LeasedWorker(
                name,
                self.wish.body(self.home, name),
                desk=self._desk,
                launcher=self._launcher or LocalLauncher(),
                scheduler=self.scheduler.address,
                host=self._host,
                security=self.security,
                environment=self.home.environment,
            )
            self.workers[name] = worker
            self._spawn(self._live(worker), name=_LIFE)

    def _least_useful(self, number: int) -> list[str]:
        """Choose workers to give back: those that wait, then those that do nothing, then the youngest."""
        joined = {ws.name: ws for ws in self.scheduler.workers.values()}
        youngest_first = list(reversed(self.workers))

        def use(name: str) -> tuple[bool, bool, int]:
            ws = joined.get(name)
            return (ws is not None, bool(ws and ws.processing), ws.nbytes if ws else 0)

        return sorted(youngest_first, key=use)[:number]

    def let_go(self, names: list[str]) -> None:
        """Have workers finish and leave."""
        for name in names:
            worker = self.leaving[name] = self.workers.pop(name)
            worker.leaving()
        if names:
            self._spawn(self._retire(names))

    async def _retire(self, names: list[str]) -> None:
        """Retire each worker by itself, so that none waits for the tasks of another."""

        async def one(name: str) -> None:
            try:
                await retire(self.scheduler, name, self._finish_seconds)
            finally:
                if name in self.leaving:
                    self.leaving[name].leave()

        await asyncio.gather(*(one(name) for name in names))

    # --- one worker ---

    async def _live(self, worker: LeasedWorker) -> None:
        """Follow a worker to its end, and see to what comes after it."""
        began = time()
        try:
            end = await worker.live()
        except GPUPoolError as error:
            self._failed(worker, error)
        else:
            if end is not End.WANTED and worker.name in self.workers:
                await self._replace(worker, end, time() - began)
        finally:
            self.workers.pop(worker.name, None)
            self.leaving.pop(worker.name, None)

    async def _replace(self, worker: LeasedWorker, end: End, lived_seconds: float) -> None:
        """Ask for another in place of one that is gone."""
        del self.workers[worker.name]
        self.note(f"Worker {worker.name} {_ENDED[end]}; another is asked for.")
        self._short_lives = self._short_lives + 1 if lived_seconds < STEADY_SECONDS else 0
        if self._short_lives > 1:
            pause = FIRST_PAUSE_SECONDS * 2 ** min(self._short_lives - 2, 10)
            await asyncio.sleep(min(pause, LONGEST_PAUSE_SECONDS))
        self.grow()

    def _failed(self, worker: LeasedWorker, error: GPUPoolError) -> None:
        """Note why a worker cannot be had; a process that did not start is tried again a few times."""
        self.note(str(error))
        if self.workers.pop(worker.name, None) is None:
            return
        if isinstance(error, WorkerFailed):
            self._failures += 1
            if self._failures < MOST_FAILURES:
                self.grow()
                return
        self.refused_at, self.refusal = time(), error
        self._target -= 1

    def _update_worker_status(self, op: str, msg: Any) -> None:
        super()._update_worker_status(op, msg)
        for name in self.observed:
            self.workers[name].joined()
            self._failures = 0

    # --- what goes on ---

    def note(self, sentence: str) -> None:
        """Remember a sentence for people."""
        if sentence not in self.troubles:
            self.troubles.append(sentence)
        logger.info("%s", sentence)
        self._log(sentence)

    def _spawn(self, work: Any, name: str | None = None) -> None:
        task = asyncio.ensure_future(work)
        if name:
            task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("A part of the session cluster failed", exc_info=task.exception())

    # --- what people see ---

    def settle(self, timeout_seconds: float = 30.0) -> Any:
        """Wait until no worker is on its way: each runs, waits in the queue, or is gone; bounded.

        Parameters
        ----------
        timeout_seconds : float
            How long at most.
        """
        return self.sync(self._settle, timeout_seconds)

    async def _settle(self, timeout_seconds: float) -> None:
        until = time() + timeout_seconds
        while time() < until and self._on_the_way():  # noqa: ASYNC110 - a look is cheap, and rare
            await asyncio.sleep(_SETTLE_SECONDS)

    def wait_joined(self, number: int, timeout_seconds: float) -> Any:
        """Wait until so many workers that are wanted have joined; tell whether they have in time."""
        return self.sync(self._wait_joined, number, timeout_seconds)

    async def _wait_joined(self, number: int, timeout_seconds: float) -> bool:
        until = time() + timeout_seconds
        while time() < until and len(self.observed) < min(number, self._target):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_SETTLE_SECONDS)
        return len(self.observed) >= number

    def _on_the_way(self) -> bool:
        return any(it.stage in _ON_THE_WAY for it in self.workers.values())

    def check_wish(self, wish: WorkerWish) -> None:
        """Take another wish for the workers to come, if there are none of the present one.

        Raises
        ------
        OtherWorkers
            If there are.
        """
        if wish != self.wish:
            wish.check_alone(len(self.workers), self.wish)
            self.wish = wish
            self.capacity = capacity(self.home.devices(), wish.kind, wish.compute_milli, wish.count)

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        return str(super()._repr_html_(cluster_status=cluster_status or status_rows(self)))


_ON_THE_WAY = (Stage.ASKING, Stage.STARTING)
#: How often it is looked whether anybody is, seconds.
_SETTLE_SECONDS = 0.05
#: Name of the tasks that are workers' lives.
_LIFE = "life of a worker"
_ENDED = {End.DIED: "ended by itself, or was killed", End.TAKEN: "lost its lease"}


def _has_bokeh() -> bool:
    """Tell whether there is what Dask's dashboard needs."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


@atexit.register
def _close_all() -> None:
    """Leave nothing behind when the interpreter ends; leases that are not given back end with processes."""
    for cluster in list(_living):
        cluster.on_close = None
        if cluster.home.here:
            with contextlib.suppress(SessionError, TimeoutError, RuntimeError, OSError):
                cluster.close(timeout=_EXIT_SECONDS)
            cluster.kill()
