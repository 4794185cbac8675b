"""Which snapshots of the pool the browser is shown, and when.

Rule of this module: a change of the pool at once; new readings at most once a second; nothing when only
clocks have moved on (the browser counts seconds itself).
"""

from __future__ import annotations

import asyncio

import msgspec

from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.server.feed import Feed, PoolMessage

#: Shortest time between two snapshots that differ in readings only, seconds.
READINGS_SECONDS = 1.0


class Snapshots:
    """Passes snapshots on to the feed, paced.

    Parameters
    ----------
    feed : Feed
        Where they go.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._shown: PoolDoc | None = None
        self._shown_at = 0.0
        self._later: asyncio.TimerHandle | None = None

    def show(self, doc: PoolDoc) -> None:
        """Show a snapshot now, a little later, or not at all."""
        shown = self._shown
        self.cancel()
        if shown is None or doc.revision != shown.revision or doc.me != shown.me:
            self._publish(doc)
        elif _readings(doc) != _readings(shown):
            loop = asyncio.get_running_loop()
            due = self._shown_at + READINGS_SECONDS
            self._later = loop.call_at(max(due, loop.time()), self._publish, doc)

    def restart(self) -> None:
        """Show the next snapshot whatever it is: it comes from a service with other revisions."""
        self.cancel()
        self._shown = None

    def cancel(self) -> None:
        """Drop what was to be shown later."""
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _publish(self, doc: PoolDoc) -> None:
        self._later = None
        self._shown, self._shown_at = doc, asyncio.get_running_loop().time()
        self._feed.publish(PoolMessage(pool=doc))


def without_tickets(doc: PoolDoc) -> PoolDoc:
    """Return the snapshot without anything that would let its reader attach a process to a lease."""
    if all(lease.attach is None for lease in doc.leases):
        return doc
    leases = [msgspec.structs.replace(lease, attach=None) for lease in doc.leases]
    return msgspec.structs.replace(doc, leases=leases)


def _readings(doc: PoolDoc) -> object:
    """Return what may change without a new revision and is worth showing."""
    devices = [
        (it.id, it.readings, it.missing, it.health, it.health_reason, it.unmanaged_bytes, it.unmanaged)
        for it in doc.devices
    ]
    leases = [
        (it.id, it.memory_used_bytes, it.utilization_percent, it.reason, it.notices) for it in doc.leases
    ]
    return devices, leases, [(entry.lease_id, entry.reason) for entry in doc.queue], doc.warnings
