"""Reasons a person can read: what a lease waits for, and what happens to it next.

Rule of this module: it looks, and decides nothing. What it says of times is known (deadlines, holds that
end), never guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.core import hooks
from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.deadlines import hold_ends_ms
from jupyter_gpupool.core.devices import Device, DeviceKind
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.fitting import large_enough
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue, QueueEntry
from jupyter_gpupool.core.shares import format_compute, format_duration
from jupyter_gpupool.core.wording import (
    describe_device,
    describe_instance,
    describe_largest,
    describe_none_offered,
    describe_obstacle,
    describe_size,
    describe_want,
    describe_withheld,
)


class _Usable(NamedTuple):
    """Devices that a kind of request could use, and when the next lease on them is known to end."""

    devices: list[tuple[Account, Device]]
    release_ms: int | None


class Explainer:
    """Writes reasons for one ledger; what costs more than a look is kept until the revision changes."""

    def __init__(self, ledger: Ledger, queue: Queue, config: PoolConfig) -> None:
        self._config = config
        self._ledger = ledger
        self._queue = queue
        self._revision = -1
        self._positions: dict[str, int] = {}
        self._found: dict[tuple[DeviceKind | None, str, int, int | None, str], _Usable] = {}

    def lease(self, lease_id: str, now_ms: int, revision: int) -> str:
        """Say what a live lease waits for, or what happens to it next."""
        lease = self._ledger.leases.get(lease_id)
        if lease is None:
            raise UnknownLease(
                f"There is no live lease {lease_id}.", hint="It may have ended; list the leases."
            )
        self._refresh(now_ms, revision)
        if lease.state is LeaseState.QUEUED:
            return f"Waiting for {describe_want(lease.want)}: {self._obstacle(lease, now_ms)}."
        if lease.state is LeaseState.ATTACHING:
            return self._attaching(lease, now_ms)
        if lease.state is LeaseState.ENDING:
            return self._ending(lease)
        return self._active(lease, now_ms)

    def queue(self, now_ms: int, revision: int) -> list[QueueEntry]:
        """List the requests that wait, with position and reason."""
        self._refresh(now_ms, revision)
        return [
            QueueEntry(
                lease=self._ledger.leases[lease_id],
                position=position,
                reason=self.lease(lease_id, now_ms, revision),
            )
            for lease_id, position in self._positions.items()
        ]

    def withheld(self, device_id: str) -> str:
        """Say why a device is not offered; empty when it is."""
        account = self._ledger.accounts.get(device_id)
        if account is None:
            return f"{device_id} is not known: the agent of its node has not joined"
        return describe_withheld(self._ledger, account)

    def position(self, lease_id: str, now_ms: int, revision: int) -> int:
        """Return the place of a request that waits."""
        self._refresh(now_ms, revision)
        return self._positions[lease_id]

    def policy(self, lease: Lease, now_ms: int) -> str:
        """Say which rule of the administrator keeps a request waiting, as a clause; empty when none does."""
        quota = hooks.quota_reason(self._ledger, self._config, lease, now_ms)
        if quota:
            return quota
        reserved = self._ledger.reservations.reason(self._ledger, lease, now_ms)
        return reserved if reserved and self._queue.fits_without(lease, frozenset()) else ""

    def _refresh(self, now_ms: int, revision: int) -> None:
        if revision != self._revision:
            self._revision = revision
            self._positions = self._queue.positions(now_ms)
            self._found = {}

    # --- QUEUED ---------------------------------------------------------------------------------

    def _obstacle(self, lease: Lease, now_ms: int) -> str:
        """Say what is between a request and its grant."""
        if not self._ledger.accepting:
            return "nothing is granted while the journal cannot be written"
        if not any(it.device is not None for it in self._ledger.accounts.values()):
            return "waiting for the first node to join the pool"
        matching = self._queue.matching(lease.want)
        if not matching:
            return "no such device is in the pool at present"
        if not any(large_enough(lease.want, device) for _, device in matching):
            limit, _ = describe_largest(self._ledger, lease.want, [device for _, device in matching])
            return f"no such device is large enough at present ({limit})"
        policy = self.policy(lease, now_ms)
        if policy:
            return policy
        usable = self._usable(lease.want)
        if not usable.devices:
            large = (account for account, device in matching if large_enough(lease.want, device))
            return describe_none_offered(self._ledger, large)
        return self._line(lease, usable.devices) + _next_release(usable.release_ms, now_ms)

    def _usable(self, want: Want) -> _Usable:
        """Look the devices that a request could use up, or find them the first time."""
        key = (want.kind, want.device, want.compute_milli, want.memory_bytes, want.model)
        found = self._found.get(key)
        if found is None:
            devices = self._queue.could_use(want)
            releases = [due for account, _ in devices for due in self._releases(account)]
            found = self._found[key] = _Usable(devices, min(releases, default=None))
        return found

    def _releases(self, account: Account) -> list[int]:
        """Pool times at which leases on a device are known to end."""
        ends = (hold_ends_ms(it) for it in account.leases.values())
        return [it for it in ends if it is not None]

    def _line(self, lease: Lease, usable: list[tuple[Account, Device]]) -> str:
        position = self._positions[lease.id]
        if position > 1:
            return f"{position - 1} ahead of you"
        short = self._queue.meant.short_host(lease.want, lease.owner, usable)
        if short:
            return f"next in line; {short}"
        account, device, bar = self._queue.meant.nearest(lease.want, lease.owner, usable)
        return f"next in line; {describe_obstacle(self._ledger, account, device, bar)}"

    # --- held -----------------------------------------------------------------------------------

    def _attaching(self, lease: Lease, now_ms: int) -> str:
        left = _left(lease.deadline_ms, now_ms)
        away = self._away(lease, now_ms)
        if lease.generation > 1:
            return f"Restarting: waiting for the kernel to attach again ({left} left).{away}"
        return f"Granted; waiting for the holder to attach ({left} left).{self._more(lease)}{away}"

    def _active(self, lease: Lease, now_ms: int) -> str:
        away = self._away(lease, now_ms)
        if lease.pending:
            wanted = describe_size(lease.pending[0].compute_milli, lease.pending[0].memory_bytes)
            return f"Held; resizing to {wanted}: waiting for the agent to put it in force.{away}"
        hold = hold_ends_ms(lease)
        until = "" if hold is None else f" for another {_left(hold, now_ms)}"
        notice = ""
        if lease.notice_ms is not None:
            notice = f" It is taken back in {_left(lease.notice_ms, now_ms)}: {lease.notice_detail}"
        return f"Held{until}.{self._more(lease)}{self._elsewhere(lease)}{notice}{away}"

    def _elsewhere(self, lease: Lease) -> str:
        """Say which devices of a lease are on other nodes than its holder, which cannot use them."""
        if len(lease.shares) < 2:
            return ""
        here = {it.device_id for it in self._ledger.shares_on(lease, lease.node_id)}
        there = [
            describe_device(self._ledger, it.device_id) for it in lease.shares if it.device_id not in here
        ]
        if not there:
            return ""
        return f" Held on other nodes, for processes that are started there: {', '.join(there)}."

    def _more(self, lease: Lease) -> str:
        """Say what was granted where that is more than was asked for."""
        account = self._ledger.accounts.get(lease.shares[0].device_id)
        device = account.device if account is not None else None
        if device is None or not device.whole_only:
            return ""
        asked = format_compute(lease.want.compute_milli)
        return f" {asked} was asked for; it has the whole of {describe_instance(self._ledger, device)}."

    def _ending(self, lease: Lease) -> str:
        reason = lease.end_reason.value.replace("_", " ") if lease.end_reason is not None else "over"
        late = ""
        if lease.overdue:
            names = ", ".join(describe_device(self._ledger, it.device_id) for it in lease.shares)
            late = f" That is overdue: {names} is quarantined until it does."
        return f"Ending ({reason}): waiting for the agent to confirm that nothing of it is left.{late}"

    def _away(self, lease: Lease, now_ms: int) -> str:
        record = self._ledger.nodes.get(lease.node_id)
        if record is None or record.node.connected:
            return ""
        left = _left(record.grace_until_ms, now_ms)
        return f" The agent of its node is away: the lease ends in {left} unless it comes back."


def _next_release(due: int | None, now_ms: int) -> str:
    return "" if due is None else f"; the next release is expected in {_left(due, now_ms)}"


def _left(due: int | None, now_ms: int) -> str:
    return format_duration(max(0, (due or 0) - now_ms) / 1000)
