"""What owners have used: ended leases from the journal, live ones from the pool.

Rule of this module: the sum is exact in pool time; it is rounded only when it is shown.
"""

from __future__ import annotations

from jupyter_gpupool.core.quotas import usage_until
from jupyter_gpupool.protocol.documents import UsageDoc
from jupyter_gpupool.service.auth import Principal
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.journaling import JournalThread


class Usage:
    """Adds usage up.

    Parameters
    ----------
    host, journal, clock
        The live leases, the ended ones, and pool time.
    """

    def __init__(self, host: PoolHost, journal: JournalThread, clock: PoolClock) -> None:
        self._host = host
        self._journal = journal
        self._clock = clock

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
            )
        ]
