"""Processes on the nodes of leases, as their owners start, watch and end them.

Rules of this module: a process is the agent's, which has its record; here is what agents said last, and
nothing of it is written down. A process is started for a lease that waits for its holder, and on that
lease's node only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from jupyter_gpupool.cluster.errors import AgentAway
from jupyter_gpupool.core.errors import IllegalTransition
from jupyter_gpupool.core.leases import Lease, LeaseState
from jupyter_gpupool.protocol.codec import decode
from jupyter_gpupool.protocol.launches import (
    OVER,
    LaunchDoc,
    LaunchRequest,
    ProcessReport,
    ProcessState,
    SignalOrder,
    StartOrder,
)
from jupyter_gpupool.protocol.messages import DetachOrder
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.dispatch import Dispatcher
from jupyter_gpupool.service.errors import NotFound
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.launch_checks import launch_request
from jupyter_gpupool.service.nodes import NodeBook
from jupyter_gpupool.service.ownership import own_lease
from jupyter_gpupool.service.watch import Watch

#: How many processes that are over are remembered.
MOST_OVER = 2000
_ENDED = (LeaseState.ENDING, LeaseState.ENDED)


@dataclass(frozen=True, slots=True)
class _Known:
    node_id: str
    report: ProcessReport


class Processes:
    """Takes the requests of principals, and what agents report.

    Parameters
    ----------
    host, dispatcher, book, watch
        The parts of the service that processes concern.
    """

    def __init__(self, host: PoolHost, dispatcher: Dispatcher, book: NodeBook, watch: Watch) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._book = book
        self._watch = watch
        self._known: dict[str, _Known] = {}

    # --- requests -------------------------------------------------------------------------------

    async def start(self, who: Principal, lease_id: str, body: bytes) -> LaunchDoc:
        """Have a process started on a lease's node; asked again with the same id it starts nothing more.

        Raises
        ------
        IllegalTransition
            If the lease does not wait for its holder.
        AgentAway
            If its node cannot be reached.
        """
        wanted = launch_request(decode(body, LaunchRequest))
        lease = await own_lease(self._host, who, lease_id)
        key = _key(lease_id, wanted.id)
        if (known := self._known.get(key)) is not None:
            return self._doc(known, lease)
        if lease.state is not LeaseState.ATTACHING:
            raise IllegalTransition(
                f"No process can be started for lease {lease.id}: it is {lease.state.value}.",
                hint="A process is started while its lease waits for its holder (attaching).",
            )
        order = _order(lease, key, wanted)
        report = ProcessReport(
            lease_id=lease.id, generation=lease.generation, process_id=key, state=ProcessState.STARTING
        )
        self._keep(_Known(lease.node_id, report))
        if not await self._dispatcher.put(lease.node_id, order):
            self._known.pop(key, None)
            raise self._away(lease)
        return self._doc(self._known[key], lease)

    async def look(
        self, who: Principal, lease_id: str, process_id: str, since: str | None, wait_seconds: float
    ) -> LaunchDoc:
        """Show a process; with ``since``, as soon as its tag is another one, or after ``wait_seconds``."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (wait_seconds if since is not None else 0.0)
        while True:
            lease = await own_lease(self._host, who, lease_id)
            doc = self._doc(self._find(lease, process_id), lease)
            left = until - loop.time()
            if doc.tag != since or left <= 0 or doc.state in OVER or self._watch.closed:
                return doc
            await self._watch.lease(lease_id, left)

    async def signal(self, who: Principal, lease_id: str, process_id: str, number: int) -> LaunchDoc:
        """Send a signal to a process, or end it (0); nothing when it is over."""
        lease = await own_lease(self._host, who, lease_id)
        known = self._find(lease, process_id)
        if known.report.state not in OVER:
            order = SignalOrder(process_id=known.report.process_id, number=number)
            if not await self._dispatcher.put(known.node_id, order):
                raise self._away(lease)
        return self._doc(known, lease)

    def _find(self, lease: Lease, process_id: str) -> _Known:
        known = self._known.get(_key(lease.id, process_id))
        if known is not None:
            return known
        if lease.state not in _ENDED and lease.node_id not in self._book.nodes:
            raise self._away(lease)  # its agent will say, as soon as it is back
        raise NotFound(f"Lease {lease.id} has no process {process_id[:80]}.", hint="Start one.")

    def _away(self, lease: Lease) -> AgentAway:
        return AgentAway(
            f"Node {lease.node_id} of lease {lease.id} cannot be reached.",
            hint="Its agent connects by itself.",
        )

    def any_of(self, lease_id: str) -> bool:
        """Tell whether any process that was started for a lease is not over."""
        reports = (it.report for it in self._known.values())
        return any(it.lease_id == lease_id and it.state not in OVER for it in reports)

    # --- reports --------------------------------------------------------------------------------

    def joined(self, node_id: str, reports: list[ProcessReport]) -> None:
        """Take what an agent says of its processes when it connects; end those whose leases are over."""
        said = {report.process_id for report in reports}
        gone = [key for key, it in self._known.items() if it.node_id == node_id and key not in said]
        for key in gone:
            if self._known[key].report.state not in OVER:
                self._lost(key)
        for report in reports:
            self.note(node_id, report)
            if report.state not in OVER and not self._belongs(node_id, report.lease_id):
                order = DetachOrder(lease_id=report.lease_id, generation=report.generation)
                self._dispatcher.put(node_id, order)

    def _lost(self, key: str) -> None:
        """Note that an agent knows nothing of a process any more."""
        known = self._known[key]
        report = known.report
        over = ProcessReport(
            lease_id=report.lease_id,
            generation=report.generation,
            process_id=key,
            state=ProcessState.ENDED,
            pid=report.pid,
            words="Its node knows nothing of it any more.",
        )
        self.note(known.node_id, over)

    def note(self, node_id: str, report: ProcessReport) -> None:
        """Take what an agent says of one process."""
        lease = self._host.leases.get(report.lease_id)
        known = self._known.get(report.process_id)
        # a node speaks for its own processes only, also when their lease has moved to another one meanwhile
        if node_id != (
            known.node_id if known is not None else lease.node_id if lease is not None else node_id
        ):
            return
        self._keep(_Known(node_id, report))
        self._watch.leases_changed((report.lease_id,))

    def _keep(self, known: _Known) -> None:
        self._known[known.report.process_id] = known
        if len(self._known) > MOST_OVER:
            over = (key for key, it in self._known.items() if self._is_over(it.report.lease_id))
            for key in [*over][: MOST_OVER // 10]:
                del self._known[key]

    def _is_over(self, lease_id: str) -> bool:
        lease = self._host.leases.get(lease_id)
        return lease is None or lease.state in _ENDED

    def _belongs(self, node_id: str, lease_id: str) -> bool:
        """Tell whether a lease is on a node, and not over."""
        lease = self._host.leases.get(lease_id)
        return not self._is_over(lease_id) and lease is not None and lease.node_id == node_id

    def _doc(self, known: _Known, lease: Lease) -> LaunchDoc:
        report, entry = known.report, self._book.nodes.get(known.node_id)
        state = report.state
        if state not in OVER and entry is None and lease.state in _ENDED:
            state = ProcessState.LOST
        return LaunchDoc(
            id=report.process_id.removeprefix(f"{lease.id}."),
            lease_id=lease.id,
            node_id=known.node_id,
            hostname=entry.hostname if entry is not None else "",
            state=state,
            pid=report.pid,
            status=report.status,
            signal=report.signal,
            words=report.words,
            ip=report.ip,
            ports=report.ports,
            tag=f"{state.value}-{report.pid or 0}-{int(report.ports is not None)}",
        )


def _key(lease_id: str, process_id: str) -> str:
    """Name a process among all of a node: no lease can mean that of another."""
    return f"{lease_id}.{process_id}"


def _order(lease: Lease, key: str, wanted: LaunchRequest) -> StartOrder:
    return StartOrder(
        lease_id=lease.id,
        generation=lease.generation,
        process_id=key,
        owner=lease.owner,
        argv=wanted.argv,
        env=wanted.env,
        cwd=wanted.cwd,
        stdin=wanted.stdin,
        connection=wanted.connection,
    )
