"""The pool service, put together.

Rules of this module: it is the composition root; what it starts it ends, in the reverse order; the runtime
file is written when everything listens, and removed before anything stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.cluster.control import ControlPlane
from jupyter_gpupool.cluster.journal import IdempotencyRow, Journal, JournalUnavailable
from jupyter_gpupool.cluster.settings import dump_rules
from jupyter_gpupool.cluster.supervisor import AgentSupervisor
from jupyter_gpupool.cluster.tls import ensure_control_tls
from jupyter_gpupool.protocol import names, paths
from jupyter_gpupool.protocol.messages import Report
from jupyter_gpupool.service import housekeeping, http, joining, lifecycle
from jupyter_gpupool.service.activity import Activity
from jupyter_gpupool.service.api import API
from jupyter_gpupool.service.audit import AUDIT_FILE, AuditLog
from jupyter_gpupool.service.auth import Authenticator
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.desk import Desk
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.hub.groups import GROUPS_FILE, HubGroups
from jupyter_gpupool.service.hub.parts import HubParts
from jupyter_gpupool.service.idempotency import KEYS, KeyBook
from jupyter_gpupool.service.idleness import Idleness
from jupyter_gpupool.service.ids import request_ids
from jupyter_gpupool.service.inbox import Inbox
from jupyter_gpupool.service.journaling import JournalThread
from jupyter_gpupool.service.lease_views import LeaseViews
from jupyter_gpupool.service.maintenance import Maintenance
from jupyter_gpupool.service.measured import Measured
from jupyter_gpupool.service.memberships import MembershipKeeper
from jupyter_gpupool.service.metrics import Metrics
from jupyter_gpupool.service.moves import Mover
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.processes import Processes
from jupyter_gpupool.service.rule_files import RuleFiles, RuleKind
from jupyter_gpupool.service.settings import QUOTAS_FILE, RESERVATIONS_FILE, ServiceSettings
from jupyter_gpupool.service.snapshots import SnapshotIndex
from jupyter_gpupool.service.throttle import Throttle
from jupyter_gpupool.service.tickets import TicketBook
from jupyter_gpupool.service.usage import Usage
from jupyter_gpupool.service.usage_meter import UsageMeter
from jupyter_gpupool.service.views import Views
from jupyter_gpupool.service.watch import Watch
from jupyter_gpupool.service.web import App, Context

_log = logging.getLogger(__name__)

#: How long agents may take to hear that the pool ends, seconds.
GOODBYE_SECONDS = 2.0
#: After how many new objects garbage is looked for, and after how many looks among what is older.
GARBAGE = (20_000, 20, 20)
#: Loopback by its names.
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


async def run_service(settings: ServiceSettings) -> int:
    """Run a pool service until it is told to end, or an embedded one is not used any more.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    ServiceRuns
        If another one runs in the same runtime directory.
    JournalError
        If the journal cannot be used.
    CannotListen
        If the port cannot be had.
    """
    paths.private_directory(settings.runtime, variable=names.ENV_RUNTIME_DIR)
    with lifecycle.only_service(settings.runtime):
        journal = Journal.open(settings.journal)
        try:
            service = _Service(settings, journal)
        except BaseException:
            journal.close()
            raise
        await service.run()
    return 0


class _Service:
    """One pool service."""

    def __init__(self, settings: ServiceSettings, journal: Journal) -> None:
        self._settings = settings
        self.clock = PoolClock(0)
        self.clock = PoolClock(journal.pool_time(self.clock.read().wall_ms))
        now_ms = self.clock.now_ms
        self.metrics, self.watch, self.book = Metrics(), Watch(), NodeBook()
        self.activity, self.tickets = Activity(), TicketBook(now_ms)
        self.journal = JournalThread(journal, self.clock, self.metrics)
        self.others = joining.prepare(settings) if settings.listen else None
        self.control = self._make_control()
        self.dispatcher = Dispatcher(self.control, self.tickets, self.watch, now_ms)
        self.host = PoolHost(
            config=settings.config,
            live=journal.live_leases(),
            usage=journal.standings(),
            demand=journal.demand(),
            holds=journal.recent_holds(),
            judged=journal.judged(),
            drained=journal.drains(),
            journal=self.journal,
            clock=self.clock,
            book=self.book,
            dispatcher=self.dispatcher,
            watch=self.watch,
        )
        self.groups_known = MembershipKeeper(journal.spent.memberships(), self.clock)
        self.idleness = Idleness(self.host, self.clock)
        self.meter = UsageMeter(self.host, self.clock)
        self.processes = Processes(self.host, self.dispatcher, self.book, self.watch)
        self.inbox = Inbox(
            host=self.host,
            book=self.book,
            dispatcher=self.dispatcher,
            watch=self.watch,
            clock=self.clock,
            idleness=self.idleness,
            meter=self.meter,
            processes=self.processes,
            sweep_seconds=settings.sweep_seconds,
        )
        owners = {settings.owner: paths.owner_token(settings.runtime), **settings.tokens}
        self.local = Authenticator(owners, administrators={settings.owner})
        self.hub, self.groups = None, None
        if settings.hub:
            self.groups = HubGroups(self.host, settings.data / GROUPS_FILE)
            self.hub = HubParts(settings.hub, self.local, self.groups)
        self._follow_groups()
        self._face_clients(journal.recent_keys(now_ms(), KEYS))
        self.supervisor = AgentSupervisor(settings.runtime, _agent_arguments(settings))

    def _face_clients(self, rows: Sequence[IdempotencyRow]) -> None:
        """Make what clients see and use."""
        settings = self._settings
        lease_views = LeaseViews(
            host=self.host,
            book=self.book,
            tickets=self.tickets,
            clock=self.clock,
            idleness=self.idleness,
            show_owners=settings.show_owners,
        )
        self.measured = Measured(self.host, self.book, lease_views.opaque)
        self.views = Views(
            host=self.host,
            leases=lease_views,
            book=self.book,
            clock=self.clock,
            embedded=settings.embedded,
            agent_log=settings.runtime / names.LOGS_DIR / "agent.log",
        )
        self.audit = AuditLog(settings.data / AUDIT_FILE, lambda: self.clock.read().wall_ms)
        self.desk = Desk(
            host=self.host,
            views=lease_views,
            keys=KeyBook(rows, self.journal, self.clock.now_ms),
            dispatcher=self.dispatcher,
            book=self.book,
            watch=self.watch,
            clock=self.clock,
            idleness=self.idleness,
            audit=self.audit,
            waiter_grace_seconds=settings.waiter_grace_seconds,
        )

    def _make_control(self) -> ControlPlane:
        """Make the control plane: for this machine's agent only, or for those of other machines, too."""
        settings, others = self._settings, self.others
        beyond: dict[str, Any] = {}
        if others is not None:
            desk = others.desk.handlers
            beyond = {"host": settings.listen, "passes": others.gate.passes, "desk": desk}
        return ControlPlane(
            tls=others.tls if others is not None else ensure_control_tls(settings.runtime / names.TLS_DIR),
            on_reports=self._reports,
            on_left=self._left,
            worker_ttl_seconds=settings.worker_ttl_seconds,
            **beyond,
        )

    async def _reports(self, node_id: str, reports: list[Report]) -> None:
        await self.inbox.take(node_id, reports)

    async def _left(self, node_id: str) -> None:
        await self.inbox.left(node_id)

    def _context(self) -> Context:
        settings = self._settings
        return Context(
            auth=self.hub.auth if self.hub else self.local,
            desk=self.desk,
            processes=self.processes,
            mover=Mover(self.host, self.processes, self.clock),
            host=self.host,
            views=self.views,
            usage=self._usage(),
            snapshots=SnapshotIndex(self.journal, self.clock),
            watch=self.watch,
            metrics=self.metrics,
            measured=self.measured,
            activity=self.activity,
            audit=self.audit,
            rules=self._rule_files(),
            maintenance=Maintenance(
                host=self.host, journal=self.journal, views=self.views, audit=self.audit, clock=self.clock
            ),
            throttle=Throttle(
                requests_per_second=settings.requests_per_second, streams=settings.owner_streams
            ),
            clock=self.clock,
            hosts=frozenset({*LOOPBACK_HOSTS, settings.ip, *settings.allowed_hosts, *self._names}),
            request_ids=request_ids(),
        )

    def _follow_groups(self) -> None:
        """Have it written down who is in which group from now on, by the rules with which the pool begins."""
        config, keeper = self._settings.config, self.groups_known
        keeper.follow(self.groups.under(config) if self.groups else config)
        self.host.on_rules = keeper.follow

    def _usage(self) -> Usage:
        known = self.groups_known.all
        return Usage(self.host, self.journal, self.clock, self.meter, self._settings.prices, known)

    def _rule_files(self) -> RuleFiles:
        """Make what changes quotas and reservations; users stay in the groups that the Hub says."""
        settings = self._settings
        files = {
            RuleKind.QUOTAS: settings.quotas_path or settings.data / QUOTAS_FILE,
            RuleKind.RESERVATIONS: settings.reservations_path or settings.data / RESERVATIONS_FILE,
        }
        placed = {"placed": self.groups.placed} if self.groups else {}
        return RuleFiles(self.host, self.audit, files, **placed)

    @property
    def _names(self) -> tuple[str, ...]:
        """Names under which other machines know this one, as a Host header has them."""
        return tuple(name.lower() for name in self.others.hosts) if self.others else ()

    async def run(self) -> None:
        """Start everything, wait for the end, and stop everything."""
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.journal.close)
            # it takes as long to start as this process does, so that both start at once
            if settings.start_agent:
                self.supervisor.start()
            stack.push_async_callback(self._end_agent)
            port = self.others.control_port(settings.control_port) if self.others else 0
            control = await self.control.start(port)
            stack.push_async_callback(self.control.close)
            stack.push_async_callback(self.dispatcher.close)
            await self._note_time()
            self.host.start()
            stack.push_async_callback(self.host.close)
            self.desk.open()
            stack.callback(self.desk.close)
            door, url = lifecycle.listen(settings.runtime, settings.ip, settings.port)
            api: App = API(context := self._context())
            if self.hub:
                stack.callback(self.hub.close)
                api = self.hub.door(api, context)
            await stack.enter_async_context(http.serving(api, [door]))
            if self.others:
                outside = joining.listening(settings, self.others, api, control)
                _log.info("Other machines reach it at %s", await stack.enter_async_context(outside))
            stack.callback(self.watch.close)
            stack.push_async_callback(self._dismiss_agents)
            lifecycle.announce(
                settings.runtime, url=url, owner=settings.owner, embedded=settings.embedded, control=control
            )
            stack.callback(lifecycle.withdraw, settings.runtime)
            _spare_what_stays()
            _log.info("The pool of %s is at %s; its journal is %s", settings.owner, url, settings.journal)
            await self._until_end(stack)

    async def _note_time(self) -> None:
        """Write the clock down, so that pool time and revisions go on from here whatever comes."""
        try:
            await self.journal.commit(())
        except JournalUnavailable as error:
            _log.warning("The journal cannot be written; nothing will be granted until it can: %s", error)

    async def _until_end(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self._settings
        await stack.enter_async_context(_background(self.inbox.sweep()))
        await stack.enter_async_context(
            _background(
                housekeeping.prune(self.journal, self.clock, settings.keep_days, settings.usage_keep_days)
            )
        )
        await stack.enter_async_context(_background(housekeeping.keep_demand(self.host, self.journal)))
        await stack.enter_async_context(_background(self.meter.keep(self.journal)))
        await stack.enter_async_context(_background(self.groups_known.keep(self.journal)))
        ends = [asyncio.ensure_future(_until_signal())]
        if settings.embedded:
            unused = housekeeping.until_unused(self.host, self.activity, settings.idle_exit_seconds)
            ends.append(asyncio.ensure_future(unused))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        _log.info("The pool ends; %d leases stay as they are", len(self.host.leases))

    async def _dismiss_agents(self) -> None:
        """Tell the agents to end; while there are leases, they stay with their holders."""
        await self.supervisor.close()
        if not self.host.leases:
            await self.dispatcher.stop_agents(self.control.connected, GOODBYE_SECONDS)

    async def _end_agent(self) -> None:
        """See our agent end, unless it has holders to stay with."""
        await self.supervisor.close()
        if not self.host.leases:
            await self.supervisor.stop()


def _spare_what_stays() -> None:
    """Let garbage be looked for among what is new only, and less often.

    What is loaded by now (most of it modules) lives as long as the process: to look through it takes longer
    than a decision, and each lease makes objects that go without being looked for.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _agent_arguments(settings: ServiceSettings) -> list[str]:
    arguments = ["--embedded"] if settings.embedded else []
    if settings.emulate:
        arguments += ["--emulate", settings.emulate]
    if settings.emulate_beside:
        arguments.append("--emulate-beside")
    if settings.rules != NodeRules():
        arguments += ["--rules", dump_rules(settings.rules)]
    return arguments


@contextlib.asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until_signal() -> None:
    """Return at SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
