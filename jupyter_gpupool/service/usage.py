"""What owners have used, and what they may have: ended leases from the journal, the rest from the pool.

Rule of this module: the sum is exact in pool time; it is rounded only when it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jupyter_gpupool.cluster.journal import Journal
from jupyter_gpupool.cluster.journal_groups import Memberships
from jupyter_gpupool.cluster.journal_spans import KnownDevice, MeasuredHour, Span, spans_until
from jupyter_gpupool.core.hooks import StandingsBook
from jupyter_gpupool.core.policies.order import Standing
from jupyter_gpupool.core.quotas import usage_until
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.quotas.check import DEVICE_HOUR, OF_ALL_KINDS, Bound, bounds
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.protocol.documents import HeldDoc, QuotaDoc, UsageDoc, UsageRowDoc
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.journaling import JournalThread
from jupyter_gpupool.service.usage_meter import UsageMeter
from jupyter_gpupool.service.usage_report import Facts, Wanted, report

#: What a limit is about -> how it is called, and what is one of it.
_SHOWN = {
    "compute": ("compute", WHOLE_MILLI),
    "memory": ("memory", 1),
    "leases": ("leases", 1),
    "week": ("hours_per_week", DEVICE_HOUR),
    "cpus": ("cpus", WHOLE_MILLI),
    "memory_host": ("memory_host", 1),
}


class Usage:
    """Adds usage up.

    Parameters
    ----------
    host, journal, clock
        The live leases, the ended ones, and pool time.
    meter : UsageMeter
        What was measured and is not written down yet.
    prices : mapping of str to float
        Price of a device-hour, by words of the model's name.
    groups : Memberships, optional
        Which group each owner was in, and when.
    """

    def __init__(
        self,
        host: PoolHost,
        journal: JournalThread,
        clock: PoolClock,
        meter: UsageMeter,
        prices: Mapping[str, float] = MappingProxyType({}),
        groups: Memberships | None = None,
    ) -> None:
        self._host = host
        self._journal = journal
        self._clock = clock
        self._meter = meter
        self._prices = prices
        self._groups = groups or Memberships()

    async def of(self, who: Principal) -> list[UsageDoc]:
        """Return what this owner has used; of others nothing is shown."""
        await self._host.settled()
        # taken before the journal is asked: a lease that ends meanwhile is counted once
        live = [lease for lease in self._host.leases.values() if lease.owner == who.owner]
        now_ms = self._clock.now_ms()
        ended = await self._journal.read(lambda journal: journal.usage())
        used_milli_ms = sum(row.used_milli_ms for row in ended if row.owner == who.owner)
        count = sum(row.leases for row in ended if row.owner == who.owner)
        used_milli_ms += sum(usage_until(lease, now_ms) for lease in live)
        return [
            UsageDoc(
                owner=who.owner,
                mine=True,
                device_seconds=used_milli_ms / 1_000_000,
                leases=count + len(live),
                live_leases=len(live),
                held=_held(self._host.pool.usage, who.owner, now_ms),
                quotas=_quotas(self._host.pool.usage, who.owner, now_ms),
            )
        ]

    async def report(self, who: Principal, wanted: Wanted) -> list[UsageRowDoc]:
        """Return who has held and used what; of others only administrators are told."""
        await self._host.settled()

        def read(journal: Journal) -> tuple[list[Span], list[MeasuredHour], list[KnownDevice]]:
            spent, since, until = journal.spent, wanted.since_ms, wanted.until_ms
            return spent.spans(since, until), spent.measured(since, until), spent.devices()

        # taken before the journal is asked: a lease that ends meanwhile is counted once
        now = self._clock.read()
        live = [
            span
            for lease in self._host.leases.values()
            for span in spans_until(lease, now.now_ms, now.wall_ms)
        ]
        pending = self._meter.pending()
        spans, measured, devices = await self._journal.read(read)
        everybody = who.administrator and not who.kernel_id
        alive = {span.lease_id for span in live}
        spans = [it for it in spans if it.until_ms <= now.wall_ms or it.lease_id not in alive]
        facts = Facts(
            spans=[it for it in (*spans, *live) if everybody or it.owner == who.owner],
            measured=[it for it in (*measured, *pending) if everybody or it.owner == who.owner],
            devices={it.id: it for it in devices} | self._meter.devices(),
            groups=self._groups,
            prices=self._prices,
        )
        return report(facts, wanted)


def _held(book: StandingsBook, owner: str, now_ms: int) -> list[HeldDoc]:
    """Say how an owner stands, by kind of device."""
    if not isinstance(book, Book):
        return []
    standing, docs = book.of([owner], now_ms).get(owner), []
    for kind in book.kinds(owner):
        _, rules, line, _ = next(book.lines_of(owner, kind))
        asks = line.held_milli or line.queued_milli
        mine = standing.of_kind(kind) if standing is not None and asks else Standing()
        docs.append(
            HeldDoc(
                kind=kind,
                held_devices=line.held_milli / WHOLE_MILLI,
                deserved_devices=(rules.deserved_milli.of(kind) or 0) / WHOLE_MILLI,
                fair_devices=mine.fair_milli / WHOLE_MILLI,
                faded_hours=book.read(line, now_ms).used_milli_ms / DEVICE_HOUR,
                week_hours=book.week_of_line(line, now_ms) / DEVICE_HOUR,
            )
        )
    return docs


def _quotas(book: StandingsBook, owner: str, now_ms: int) -> list[QuotaDoc]:
    """List every limit that counts for an owner."""
    if not isinstance(book, Book):
        return []
    found = {
        # what counts for all kinds together is shown once
        (bound.group, bound.what, None if bound.what in OF_ALL_KINDS else kind): bound
        for kind in book.kinds(owner)
        for bound in bounds(book, owner, kind, now_ms)
    }
    return [_quota(bound) for bound in found.values()]


def _quota(bound: Bound) -> QuotaDoc:
    word, unit = _SHOWN[bound.what]
    return QuotaDoc(
        group=bound.group,
        what=word,
        kind=None if bound.what in OF_ALL_KINDS else bound.kind,
        limit=bound.limit / unit,
        used=bound.used / unit,
        left=bound.left / unit,
    )
