"""The only place that calls `Pool.handle`: decide, write down, then act.

Rules of this module: events are handled in the order in which they came; all transitions of a batch are one
transaction of the journal; nobody learns of a decision, and nothing is ordered, before it is on the disk.
While the journal cannot be written nothing is granted, and what happens all the same (ends, exits) is kept
and written when it can be.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from jupyter_gpupool.cluster.journal import IdempotencyRow, JournalUnavailable
from jupyter_gpupool.cluster.journal_rows import owners_changed
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.drained import Drain
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.estimates import HeldBefore
from jupyter_gpupool.core.events import (
    Event,
    JournalRecovered,
    LeaseRequested,
    ResizeRequested,
)
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.core.placement.demand import Shape
from jupyter_gpupool.core.pool import Pool
from jupyter_gpupool.core.quotas.usage import OwnerUsage
from jupyter_gpupool.service.alarm import Alarm
from jupyter_gpupool.service.batch import Item, next_batch, parts_told, writes_of
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.errors import Stopping
from jupyter_gpupool.service.journaling import JournalThread
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.watch import Watch

_log = logging.getLogger(__name__)

#: Most events in one transaction.
BATCH = 256
#: After a batch of at least so many events, the next one is gathered for so long, seconds.
BUSY, GATHER_SECONDS = 3, 0.001
#: Shortest and longest pause between two tries to write to a journal that failed, seconds.
RETRY_SECONDS = (1.0, 15.0)
#: How many leases that ended are kept at hand.
RECENT = 2000


class PoolHost:
    """Runs one `Pool`.

    Parameters
    ----------
    config : PoolConfig
        The pool's rules.
    live : sequence of Lease
        The live leases of the journal.
    usage, demand, holds, judged
        What the journal says that owners have used, that was asked for, for how long leases were held, and
        whether estimates were right.
    drained : sequence of Drain
        The nodes that the journal says are drained.
    journal : JournalThread
        Where transitions are written down.
    clock : PoolClock
        Both clocks.
    book : NodeBook
        What the agents have said.
    dispatcher : Dispatcher
        Sends orders.
    watch : Watch
        Wakes who waits.
    """

    def __init__(
        self,
        *,
        config: PoolConfig,
        live: Sequence[Lease],
        usage: Sequence[OwnerUsage] = (),
        demand: Sequence[tuple[Shape, int]] = (),
        holds: Sequence[HeldBefore] = (),
        judged: str = "",
        drained: Sequence[Drain] = (),
        journal: JournalThread,
        clock: PoolClock,
        book: NodeBook,
        dispatcher: Dispatcher,
        watch: Watch,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._book = book
        self._dispatcher = dispatcher
        self._watch = watch
        self.config = config
        #: Live leases as they were written down: what may be told to clients.
        self.leases: dict[str, Lease] = {lease.id: lease for lease in live}
        self._ended: OrderedDict[str, Lease] = OrderedDict()
        self.pool = Pool(
            config,
            leases=live,
            usage=usage,
            demand=demand,
            holds=holds,
            judged=judged,
            drained=drained,
            now_ms=clock.now_ms(),
        )
        now = clock.read()
        self.pool.usage.tick(now.now_ms, now.wall_ms)
        # pool time goes on over a restart, and faster than revisions: they never go back
        #: Is told of other rules.
        self.on_rules: Callable[[PoolConfig], None] = lambda _: None
        self._first_revision = clock.now_ms() * 1000
        self._told_revision = 0
        #: Why the journal cannot be written; None when it can.
        self.failure: JournalUnavailable | None = None
        self._unwritten: list[WriteDown] = []
        self._items: deque[Item] = deque()
        #: The batch that is handled, and since when what was decided cannot be written down.
        self._in_hand: list[Item] = []
        self._failed_ms: int | None = None
        self._arrived = asyncio.Event()
        self._settling: asyncio.Future[None] | None = None
        self._alarm = Alarm(clock, self.post)
        self._retry_seconds = RETRY_SECONDS[0]
        self._writer: asyncio.Task[None] | None = None

    @property
    def revision(self) -> int:
        """Grows with every visible change."""
        return self._first_revision + self.pool.revision

    @property
    def lag_ms(self) -> int:
        """For how long the oldest event waits that is not written down yet, milliseconds of pool time."""
        waiting = [it[0].came_ms for it in (self._in_hand, self._items) if it]
        if self._failed_ms is not None:
            waiting.append(self._failed_ms)
        return max(0, self._clock.now_ms() - min(waiting)) if waiting else 0

    def start(self) -> None:
        """Begin to handle events."""
        self._writer = asyncio.get_running_loop().create_task(self._run())
        self._alarm.set(self.pool.next_deadline_ms())

    async def close(self) -> None:
        """Write down what was decided, and stop."""
        self._alarm.set(None)
        await self.settled()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        for item in self._items:
            if item.future is not None and not item.future.done():
                item.future.set_exception(Stopping("The pool is ending.", hint="Try again."))
        if self._unwritten:
            await self._last_try()

    async def submit(self, event: Event, key: IdempotencyRow | None = None) -> None:
        """Have an event handled; when this returns, what follows from it is written down.

        Raises
        ------
        GPUPoolError
            If the Pool refuses it; nothing was changed then.
        JournalUnavailable
            If it had to be written down first, and cannot be.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Item(event, future, key))
        await future

    def post(self, event: Event) -> None:
        """Have a fact handled; if it does not fit the pool any more, it is logged and dropped."""
        self._put(Item(event))

    def reconfigure(self, rules: Callable[[PoolConfig], PoolConfig]) -> None:
        """Have the pool under other rules, for whatever is handled after this; what is held stays held.

        Parameters
        ----------
        rules : callable
            Makes them of the present ones. The same again changes nothing.
        """
        self._put(Item(None, rules=rules))

    async def reconfigured(self, rules: Callable[[PoolConfig], PoolConfig]) -> None:
        """Do the same, and return when the pool is under them."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Item(None, future, rules=rules))
        await future

    async def settled(self) -> None:
        """Wait until what the Pool has decided is on the disk: what is read then may be told."""
        while self._settling is not None:
            await asyncio.shield(self._settling)

    async def find(self, lease_id: str) -> Lease | None:
        """Find a lease, live or ended; None when there never was one (or it was pruned)."""
        lease = self.leases.get(lease_id) or self._ended.get(lease_id)
        if lease is not None:
            return lease
        return await self._journal.read(lambda journal: journal.lease(lease_id))

    def _put(self, item: Item) -> None:
        item.came_ms = self._clock.now_ms()
        self._items.append(item)
        self._arrived.set()

    async def _run(self) -> None:
        batch: list[Item] = []
        while True:
            await self._arrived.wait()
            # what arrives meanwhile shares the transaction; who comes alone is not kept waiting
            await asyncio.sleep(GATHER_SECONDS if len(batch) >= BUSY else 0)
            batch = next_batch(self._items, BATCH)
            if not self._items:
                self._arrived.clear()
            self._in_hand = batch
            try:
                await self._process(batch)
            except Exception:
                _log.exception("A batch of %d events could not be handled; this is a bug", len(batch))
                self._start_over(batch)
            self._in_hand = []
            # whoever was answered looks at the pool before the next batch changes it
            await asyncio.sleep(0)

    def _start_over(self, batch: Sequence[Item]) -> None:
        """Forget what a fault of ours left half done."""
        for item in batch:
            if item.future is not None and not item.future.done():
                item.future.set_exception(GPUPoolError("The pool could not handle this; its log says why."))
        self._rebuild()
        # a fault that comes again at once shall not keep the service busy
        asyncio.get_running_loop().call_later(RETRY_SECONDS[0], self._recovered)

    async def _process(self, batch: Sequence[Item]) -> None:
        for item in batch:
            if item.rules is not None:
                self._reconfigure(item, item.rules)
            elif item.event is None:
                await self._write_again()
            else:
                self._handle(item, item.event)
        writes = writes_of(batch)
        if self.failure is not None:
            self._unwritten.extend(writes)
        elif writes:
            keys = [item.key for item in batch if item.key is not None and item.error is None]
            try:
                await self._commit(writes, keys)
            except JournalUnavailable as error:
                self._fall_back(batch, error)
                self._unwritten.extend(writes_of(batch))
        self._publish(batch)

    def _handle(self, item: Item, event: Event) -> None:
        item.effects, item.error = (), None
        try:
            item.effects = self.pool.handle(event)
        except GPUPoolError as error:
            item.error = error
            if item.future is None:
                _log.debug("%s does not fit the pool any more: %s", type(event).__name__, error)

    def _reconfigure(self, item: Item, rules: Callable[[PoolConfig], PoolConfig]) -> None:
        """Build the Pool anew under other rules, and grant what fits by them."""
        config = rules(self.config)
        if config == self.config:
            return
        self.config = config
        self.on_rules(config)
        self._rebuild()
        if self.failure is None:
            now = self._clock.read()
            self._handle(item, JournalRecovered(now_ms=now.now_ms, wall_ms=now.wall_ms))

    async def _commit(self, writes: Sequence[WriteDown], keys: Sequence[IdempotencyRow] = ()) -> None:
        settling: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settling = settling
        standings = self.pool.usage.rows(owners_changed(writes))
        try:
            await self._journal.commit(writes, keys, standings)
        finally:
            self._settling = None
            settling.set_result(None)

    def _publish(self, batch: Sequence[Item]) -> None:
        """Tell of what is written down: the waiting callers, the agents, and all who watch."""
        changed = [write.lease for write in writes_of(batch)]
        for lease in changed:
            self._keep(lease)
        for item in batch:
            if item.future is not None and not item.future.done():
                if item.error is not None:
                    item.future.set_exception(item.error)
                else:
                    item.future.set_result(None)
            self._dispatcher.carry_out(item.effects)
        self._watch.leases_changed(lease.id for lease in changed)
        self._watch.leases_changed(parts_told(batch))
        if self.revision != self._told_revision:
            self._told_revision = self.revision
            self._watch.pool_changed()
        self._alarm.set(self.pool.next_deadline_ms())

    def _keep(self, lease: Lease) -> None:
        if lease.state is not LeaseState.ENDED:
            self.leases[lease.id] = lease
            return
        self.leases.pop(lease.id, None)
        self._ended[lease.id] = lease
        if len(self._ended) > RECENT:
            self._ended.popitem(last=False)

    def _fall_back(self, batch: Sequence[Item], error: JournalUnavailable) -> None:
        """Build the Pool anew from what is written down, and handle what has happened all the same again."""
        _log.error("Nothing is granted until the journal can be written: %s", error)
        self.failure = error
        self._failed_ms = min((it.came_ms for it in batch), default=self._clock.now_ms())
        self._rebuild()
        now = self._clock.read()
        for item in batch:
            match item.event:
                case LeaseRequested() | ResizeRequested():
                    item.effects, item.error = (), error
                case None:
                    item.effects = ()
                case event:
                    self._handle(item, replace(event, now_ms=now.now_ms, wall_ms=now.wall_ms))
        self._ask_agents()
        self._retry_soon()

    def _rebuild(self) -> None:
        """Go back to what is written down."""
        now_ms = self._clock.now_ms()
        self.pool = self.pool.rebuilt(self.leases.values(), now_ms=now_ms, config=self.config)

    def _ask_agents(self) -> None:
        """Let the agents say what they have by now: it mends what was lost with a batch."""
        for node_id in list(self._book.nodes):
            self._dispatcher.ask_holders(node_id)

    def _recovered(self) -> None:
        """Grant again."""
        if self.failure is None:
            now = self._clock.read()
            self.post(JournalRecovered(now_ms=now.now_ms, wall_ms=now.wall_ms))
            self._ask_agents()

    def _retry_soon(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._retry_seconds, self._put, Item(None))

    async def _write_again(self) -> None:
        """Try to write what was kept; if that works, grants are made again."""
        if self.failure is None:
            return
        try:
            await self._commit(self._unwritten)
        except JournalUnavailable as error:
            self.failure = error
            self._retry_seconds = min(RETRY_SECONDS[1], self._retry_seconds * 1.5)
            self._retry_soon()
            return
        _log.warning("The journal can be written again; %d transitions were kept", len(self._unwritten))
        self.failure = self._failed_ms = None
        self._unwritten = []
        self._retry_seconds = RETRY_SECONDS[0]
        self._recovered()

    async def _last_try(self) -> None:
        try:
            await self._commit(self._unwritten)
        except JournalUnavailable as error:
            # the agents know what lives, and tell the next service
            _log.error("%d transitions could not be written: %s", len(self._unwritten), error)
