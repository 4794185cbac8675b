"""Reasons a person can read: what a lease waits for, and what happens to it next.

Rule of this module: it looks, and decides nothing. What it says of times is known (deadlines, holds that
end), never guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_gpupool.core.accounts import Account
from jupyter_gpupool.core.deadlines import hold_ends_ms
from jupyter_gpupool.core.devices import Device, DeviceKind, Withheld
from jupyter_gpupool.core.errors import UnknownLease
from jupyter_gpupool.core.leases import Lease, LeaseState, Want
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue, QueueEntry
from jupyter_gpupool.core.shares import format_duration, format_memory
from jupyter_gpupool.core.wording import describe_device, describe_size, describe_want

#: How many withheld devices one sentence explains.
_EXPLAINED = 2


class _Usable(NamedTuple):
    """Devices that a kind of request could use, and when the next lease on them is known to end."""

    devices: list[tuple[Account, Device]]
    release_ms: int | None


class Explainer:
    """Writes reasons for one ledger; what costs more than a look is kept until the revision changes."""

    def __init__(self, ledger: Ledger, queue: Queue) -> None:
        self._ledger = ledger
        self._queue = queue
        self._revision = -1
        self._positions: dict[str, int] = {}
        self._found: dict[tuple[DeviceKind | None, str, int | None], _Usable] = {}

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
        why = self._ledger.withheld(account)
        name = describe_device(self._ledger, device_id)
        if why is None:
            return ""
        if why is Withheld.TAKEN and account.device is not None:
            return f"{name} is managed by {account.device.taken_by}"
        if why is Withheld.QUARANTINED:
            gone = ", ".join(account.overdue)
            return f"{name} is quarantined: its agent has not confirmed the end of lease {gone}"
        return f"{name} {_WITHHELD[why]}"

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
        if not any(self._queue.large_enough(lease.want, device) for _, device in matching):
            largest = max(device.memory_bytes for _, device in matching)
            return f"no such device is large enough at present (the largest has {format_memory(largest)})"
        usable = self._usable(lease.want)
        if not usable.devices:
            return self._none_offered([device.id for _, device in matching])
        return self._line(lease, usable.devices) + _next_release(usable.release_ms, now_ms)

    def _usable(self, want: Want) -> _Usable:
        """Look the devices that a request could use up, or find them the first time."""
        key = (want.kind, want.device, want.memory_bytes)
        found = self._found.get(key)
        if found is None:
            devices = self._queue.usable(want, self._queue.offered())
            releases = [due for account, _ in devices for due in self._releases(account)]
            found = self._found[key] = _Usable(devices, min(releases, default=None))
        return found

    def _releases(self, account: Account) -> list[int]:
        """Pool times at which leases on a device are known to end."""
        ends = (hold_ends_ms(self._ledger.leases[it]) for it in account.leases)
        return [it for it in ends if it is not None]

    def _none_offered(self, device_ids: list[str]) -> str:
        reasons = [why for it in device_ids if (why := self.withheld(it))]
        more = len(reasons) - _EXPLAINED
        shown = "; ".join(reasons[:_EXPLAINED]) + (f"; and {more} more" if more > 0 else "")
        return f"no such device is offered: {shown}"

    def _line(self, lease: Lease, usable: list[tuple[Account, Device]]) -> str:
        position = self._positions[lease.id]
        if position > 1:
            return f"{position - 1} ahead of you"
        account, device = max(usable, key=lambda it: (it[0].free_compute_milli, it[0].free_memory_bytes))
        compute_milli, memory_bytes = account.free_compute_milli, account.free_memory_bytes
        free = describe_size(compute_milli, memory_bytes) if compute_milli else "nothing"
        unmanaged = device.unmanaged_bytes or 0
        used = f" ({format_memory(unmanaged)} is used by processes without a lease)" if unmanaged else ""
        return f"next in line; {free} is free on {describe_device(self._ledger, device.id)}{used}"

    # --- held -----------------------------------------------------------------------------------

    def _attaching(self, lease: Lease, now_ms: int) -> str:
        left = _left(lease.deadline_ms, now_ms)
        away = self._away(lease, now_ms)
        if lease.generation > 1:
            return f"Restarting: waiting for the kernel to attach again ({left} left).{away}"
        return f"Granted; waiting for the holder to attach ({left} left).{away}"

    def _active(self, lease: Lease, now_ms: int) -> str:
        away = self._away(lease, now_ms)
        if lease.pending:
            wanted = describe_size(lease.pending[0].compute_milli, lease.pending[0].memory_bytes)
            return f"Held; resizing to {wanted}: waiting for the agent to put it in force.{away}"
        hold = hold_ends_ms(lease)
        return f"Held{'' if hold is None else f' for another {_left(hold, now_ms)}'}.{away}"

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


#: Why a device is not offered, after its name.
_WITHHELD = {
    Withheld.AGENT_AWAY: "is not offered: its agent is not connected",
    Withheld.FENCING: "is not offered: what is left of ended leases on its node is being detached",
    Withheld.FAILED: "has failed",
    Withheld.TAKEN: "is managed by somebody else",
}


def _next_release(due: int | None, now_ms: int) -> str:
    return "" if due is None else f"; the next release is expected in {_left(due, now_ms)}"


def _left(due: int | None, now_ms: int) -> str:
    return format_duration(max(0, (due or 0) - now_ms) / 1000)
