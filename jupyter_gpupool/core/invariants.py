"""What must hold of a ledger at any time, checked from scratch.

Rule of this module: it trusts no index; everything is derived again from the leases and compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from jupyter_gpupool.core.accounts import Account, too_many
from jupyter_gpupool.core.deadlines import due_ms
from jupyter_gpupool.core.devices import Free
from jupyter_gpupool.core.drains import drain_of
from jupyter_gpupool.core.errors import InvariantBroken
from jupyter_gpupool.core.leases import HOLDING, OCCUPYING, Lease, LeaseState
from jupyter_gpupool.core.ledger import Ledger
from jupyter_gpupool.core.queue import Queue
from jupyter_gpupool.core.quotas import audit
from jupyter_gpupool.core.quotas.book import Book
from jupyter_gpupool.core.shares import WHOLE_MILLI
from jupyter_gpupool.core.together import NO_PART, Part, beside_of, share_of


def check_ledger(ledger: Ledger, queue: Queue, now_ms: int) -> None:
    """Check everything.

    Raises
    ------
    InvariantBroken
        If anything does not hold; the message says what.
    """
    for lease_id, lease in ledger.leases.items():
        _require(lease_id == lease.id, f"{lease.id} is filed as {lease_id}")
        _check_record(lease, now_ms)
    for lease_id in ledger.parts.known():
        _require(lease_id in ledger.leases, f"something has joined {lease_id}, which has ended")
    _check_accounts(ledger)
    _check_indexes(ledger)
    _check_holders(ledger)
    _check_deadlines(ledger)
    _check_standings(ledger)
    _check_drains(ledger)
    if ledger.accepting:
        broken = queue.contradiction(now_ms)
        _require(not broken, broken)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantBroken(f"The ledger contradicts itself: {message}.", hint="Please report this.")


def _check_record(lease: Lease, now_ms: int) -> None:
    """Check one record against its state."""
    state = lease.state
    _require(state is not LeaseState.ENDED, f"{lease.id} has ended and is still there")
    if state is LeaseState.QUEUED:
        empty = not lease.shares and not lease.node_id and lease.generation == 0 and lease.granted_ms is None
        _require(empty, f"{lease.id} waits and holds something")
        return
    _check_parts(lease)
    ids = [share.device_id for share in lease.shares]
    _require(len(ids) == len(set(ids)) >= 1, f"{lease.id} does not have one share for each of its devices")
    _require(bool(lease.node_id) and lease.generation >= 1, f"{lease.id} holds a share nowhere")
    _require(
        lease.granted_ms is not None and lease.used_until_ms is not None, f"{lease.id} was never granted"
    )
    _require((lease.used_until_ms or 0) <= now_ms, f"{lease.id} has used the future")
    _require(lease.want.kind is not None, f"{lease.id} is granted without a kind")
    _require(not lease.pending or state is not LeaseState.ATTACHING, f"{lease.id} resizes before it is held")
    _require(
        not lease.pending or [it.device_id for it in lease.pending] == ids, f"{lease.id} resizes elsewhere"
    )
    if state is LeaseState.ACTIVE:
        _require(lease.pid is not None and lease.active_ms is not None, f"{lease.id} is held by nobody")
    ending = state is LeaseState.ENDING
    _require(
        (lease.end_reason is not None) is ending, f"{lease.id} ends without a reason, or has one too soon"
    )
    _require(ending or not lease.overdue, f"{lease.id} is overdue before its end")
    if state is not LeaseState.ACTIVE:
        _require((lease.deadline_ms is None) is lease.overdue, f"{lease.id} has no deadline, or one too many")


def _check_parts(lease: Lease) -> None:
    """Check that a lease takes of its nodes what it asks for beside its shares, and no less."""
    want = lease.want
    _require(bool(lease.beside) is want.asks_host, f"{lease.id} takes something beside its shares, or should")
    enough = not lease.beside or (
        sum(it.cpu_milli for it in lease.beside) >= want.host_cpu_milli
        and sum(it.memory_bytes for it in lease.beside) >= want.host_memory_bytes
    )
    _require(enough, f"{lease.id} takes less beside its shares than it asked for")


def _check_accounts(ledger: Ledger) -> None:
    """Check that no device is over-committed, and that running accounts equal the sums."""
    sums = _sums(ledger.leases.values())
    _require(sums.keys() <= ledger.accounts.keys(), "a reservation has no account")
    nothing = Free(compute_milli=0, memory_bytes=0)
    for device_id, account in ledger.accounts.items():
        total = sums.get(device_id, nothing)
        _check_beside(ledger, account)
        booked = Free(compute_milli=account.compute_milli, memory_bytes=account.memory_bytes)
        _require(booked == total, f"{device_id} is booked as {booked}, and adds up to {total}")
        _require(total.compute_milli <= WHOLE_MILLI, f"compute of {device_id} is over-committed")
        room = account.device.memory_bytes if account.device is not None else total.memory_bytes
        over = total.memory_bytes + account.host_memory_bytes - account.twice.memory_bytes > room
        if account.device is None:
            over = False
        elif account.host_cpu_milli:
            over = over or account.free_cpu_milli < 0
        _require(over is account.shrunk, f"memory of {device_id} is over-committed")
        on_it = {
            it.id for it in ledger.leases.values() for share in it.shares if share.device_id == device_id
        }
        _require(set(account.leases) == on_it, f"the list of leases on {device_id} is wrong")
        owners = Counter(ledger.leases[it].owner for it in on_it)
        _require(account.owners == owners, f"the owners on {device_id} are counted wrong")
        device = account.device
        crowded = device is not None and too_many(device, len(on_it), len(owners))
        _require(crowded is account.crowded, f"{device_id} has more leases or owners than it takes")
        late = {it for it in on_it if ledger.leases[it].overdue}
        _require(set(account.overdue) == late, f"the quarantine of {device_id} is wrong")


def _check_beside(ledger: Ledger, account: Account) -> None:
    """Check that what leases take of a node beside their shares adds up."""
    parts = {
        lease.id: part
        for lease in ledger.leases.values()
        if lease.state in HOLDING
        for part in lease.beside
        if part.device_id == account.device_id
    }
    booked = (account.host_cpu_milli, account.host_memory_bytes)
    total = (sum(it.cpu_milli for it in parts.values()), sum(it.memory_bytes for it in parts.values()))
    _require(
        booked == total, f"beside shares {booked} of {account.device_id} is booked, and {total} is taken"
    )
    _require(set(account.beside) == set(parts), f"who takes of {account.device_id} beside shares is wrong")
    current = [*account.leases.items(), *account.beside.items()]
    _require(all(ledger.leases.get(key) is it for key, it in current), "an account has an old lease")
    _check_twice(ledger, account)


def _check_twice(ledger: Ledger, account: Account) -> None:
    """Check that what a holder has of a CPU both ways counts once, the larger of the two."""
    device = account.device
    if device is None or not (account.leases and account.beside):
        _require(account.twice == NO_PART, f"something of {account.device_id} is counted once too often")
        return
    sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for lease in ledger.leases.values():
        share, beside = share_of(lease, device), beside_of(lease, device.id)
        whose = sums[lease.owner, lease.holder.key]
        for place, more in enumerate((*share, *beside)):
            whose[place] += more
    cores = sum(min(share, beside) for share, _, beside, _ in sums.values())
    memory = sum(min(share, beside) for _, share, _, beside in sums.values())
    _require(account.twice == Part(cores, memory), f"what holders have twice of {device.id} is wrong")


def _sums(leases: Iterable[Lease]) -> dict[str, Free]:
    """Add up what is taken of each device: while a lease resizes, the larger of old and new counts."""
    compute: defaultdict[str, int] = defaultdict(int)
    memory: defaultdict[str, int] = defaultdict(int)
    for lease in leases:
        for place, held in enumerate(lease.shares):
            sizes = [held, lease.pending[place]] if lease.pending else [held]
            compute[held.device_id] += max(it.compute_milli for it in sizes)
            memory[held.device_id] += max(it.memory_bytes for it in sizes)
    return {it: Free(compute_milli=compute[it], memory_bytes=memory[it]) for it in compute}


def _check_drains(ledger: Ledger) -> None:
    """Check that nothing goes on where everything was ended, and that who holds something was told."""
    for node_id in ledger.drains.passed:
        there = ledger.touching(node_id) if node_id in ledger.nodes else []
        on = [it.id for it in there if it.state is not LeaseState.ENDING]
        _require(not on, f"{on} go on on node {node_id}, which was drained")
    for lease in ledger.leases.values():
        if lease.state is LeaseState.ACTIVE and (drain := drain_of(ledger, lease)) is not None:
            _require(lease.notice_ms == drain.until_ms, f"{lease.id} was not told that its node is drained")


def _check_indexes(ledger: Ledger) -> None:
    """Check the queue and the index of nodes."""
    queued = [it for it in ledger.leases.values() if it.state is LeaseState.QUEUED]
    queued.sort(key=lambda it: (it.requested_ms, it.id))
    _require(list(ledger.waiting()) == queued, "something is lost between queue and lease")
    held = {it.id: it.node_id for it in ledger.leases.values() if it.state in HOLDING}
    for node_id in {*held.values(), *ledger.nodes}:
        listed = {it.id for it in ledger.on_node(node_id)}
        _require(
            listed == {key for key, at in held.items() if at == node_id}, f"the leases of {node_id} are wrong"
        )
    missing = set(held.values()) - ledger.nodes.keys()
    _require(not missing, f"leases are on nodes that are unknown: {missing}")


def _check_holders(ledger: Ledger) -> None:
    """Check that no holder has two leases of one kind."""
    seen: set[tuple[str, str, object]] = set()
    for lease in ledger.leases.values():
        if lease.state in OCCUPYING:
            _require(
                lease in ledger.of_holder(lease.owner, lease.holder.key), f"the holder of {lease.id} is lost"
            )
            key = (lease.owner, lease.holder.key, lease.want.kind)
            _require(key not in seen, f"the holder of {lease.id} has two leases of one kind")
            seen.add(key)
        else:
            _require(
                lease not in ledger.of_holder(lease.owner, lease.holder.key),
                f"{lease.id} occupies its holder",
            )


def _check_deadlines(ledger: Ledger) -> None:
    """Check that the lease that is due first is the one that the heap names."""
    dues = [due for it in ledger.leases.values() if (due := due_ms(it)) is not None]
    first = ledger.deadlines.first(ledger.leases)
    _require((first[0] if first else None) == min(dues, default=None), "a deadline is lost")


def _check_standings(ledger: Ledger) -> None:
    """Check that how owners and groups stand is what their leases add up to."""
    if isinstance(ledger.standings, Book):
        wrong = audit.contradiction(ledger.standings, ledger.leases.values())
        _require(not wrong, wrong)
