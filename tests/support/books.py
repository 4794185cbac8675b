"""Books of quotas, and leases to note in them without a pool."""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpupool.core.config import HALF_LIFE_MS
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.leases import Holder, Lease, LeaseState, Priority, Share, Want
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.testing import GIB

#: A Wednesday at noon, UTC: 15 November 2023.
WALL_MS = 1_700_049_600_000
HOUR_MS = 3_600_000
DEVICE_HOUR = 1000 * HOUR_MS


class Books:
    """One book, with a clock, and the leases that were noted in it.

    Parameters
    ----------
    quotas : Quotas
        The rules.
    devices : int
        How many CUDA devices the pool has.
    """

    def __init__(self, quotas: Quotas | None = None, devices: int = 4) -> None:
        self.quotas = quotas or Quotas()
        self.devices = devices
        self.now_ms = 0
        self.leases: dict[str, Lease] = {}
        self.book = self._new()
        self.tick()

    def _new(self) -> Book:
        rows = self.book.rows() if hasattr(self, "book") else ()
        book = Book(self.quotas, half_life_ms=HALF_LIFE_MS, usage=rows)
        book.capacity({DeviceKind.CUDA: 1000 * self.devices})
        return book

    def tick(self) -> None:
        """Tell the book the time."""
        self.book.tick(self.now_ms, WALL_MS + self.now_ms)

    def pass_time(self, ms: int) -> None:
        """Let time pass, and tell the book."""
        self.now_ms += ms
        self.tick()

    def restart(self) -> None:
        """Make the book anew from its rows and the live leases."""
        self.book = self._new()
        for lease in self.leases.values():
            self.book.note(None, lease)
        self.tick()

    def put(self, lease: Lease) -> Lease:
        """Note a new value of a lease."""
        gone = lease.state is LeaseState.ENDED
        self.book.note(self.leases.get(lease.id), None if gone else lease)
        self.leases[lease.id] = lease
        if gone:
            del self.leases[lease.id]
        return lease

    def ask(
        self, milli: int, owner: str = "ann", *, count: int = 1, priority: Priority = Priority.NORMAL
    ) -> Lease:
        """Note a request."""
        number = f"lease_{self.now_ms:012d}_{len(self.leases):04d}_{owner}"
        want = Want(compute_milli=milli, kind=DeviceKind.CUDA, count=count, priority=priority)
        return self.put(
            Lease(
                id=number,
                owner=owner,
                holder=Holder(key=number),
                want=want,
                state=LeaseState.QUEUED,
                requested_ms=self.now_ms,
                requested_wall_ms=WALL_MS + self.now_ms,
            )
        )

    def grant(self, lease: Lease, memory_bytes: int = GIB) -> Lease:
        """Note that a request was granted."""
        shares = tuple(
            Share(device_id=f"cuda{n}", compute_milli=lease.want.compute_milli, memory_bytes=memory_bytes)
            for n in range(lease.want.count)
        )
        state = LeaseState.ATTACHING
        return self.put(replace(lease, state=state, granted_ms=self.now_ms, shares=shares))

    def hold(self, milli: int, owner: str = "ann", *, memory_bytes: int = GIB, **want: object) -> Lease:
        """Note a lease that is asked for and granted."""
        return self.grant(self.ask(milli, owner, **want), memory_bytes)  # type: ignore[arg-type]

    def end(self, lease: Lease) -> None:
        """Note that a lease has ended."""
        self.put(replace(self.leases[lease.id], state=LeaseState.ENDED, shares=()))
