"""Keeps in the journal which group each owner is in, whoever says it: the file of quotas, or JupyterHub.

Rule of this module: what cannot be written is kept and tried again; a service that starts writes down what
has changed while none ran.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_gpupool.cluster.journal import JournalUnavailable
from jupyter_gpupool.cluster.journal_groups import Membership, Memberships
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.service.clock import PoolClock
from jupyter_gpupool.service.journaling import JournalThread

_log = logging.getLogger(__name__)

#: Pause before what could not be written is tried again, seconds.
AGAIN_SECONDS = 5.0


class MembershipKeeper:
    """Follows the groups.

    Parameters
    ----------
    known : Memberships
        What the journal says.
    clock : PoolClock
        When.
    """

    def __init__(self, known: Memberships, clock: PoolClock) -> None:
        #: All that is known.
        self.all = known
        self._clock = clock
        self._unwritten: list[Membership] = []
        self._changed = asyncio.Event()

    def follow(self, config: PoolConfig) -> None:
        """Take over who is in which group by the pool's rules of now."""
        new = self.all.take(config.quotas.group_of, self._clock.read().wall_ms)
        if new:
            self._unwritten += new
            self._changed.set()

    async def keep(self, journal: JournalThread) -> None:
        """Write down what changes, as soon as it does; ends when it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            new, self._unwritten = self._unwritten, []
            try:
                await journal.read(lambda it: it.spent.note_groups(new))  # noqa: B023 - awaited here
            except JournalUnavailable as error:
                _log.warning("Who is in which group could not be written down: %s", error)
                self._unwritten = [*new, *self._unwritten]
                await asyncio.sleep(AGAIN_SECONDS)
                self._changed.set()
