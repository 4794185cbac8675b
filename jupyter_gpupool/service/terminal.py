"""The pool as tables for a terminal.

Rule of this module: pure rendering of a `PoolDoc`; no colour carries meaning alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jupyter_gpupool.core.shares import format_compute, format_duration, format_memory
from jupyter_gpupool.core.wording import because, describe_part
from jupyter_gpupool.kernel.words import spread
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    LeaseDoc,
    NodeDoc,
    NodeState,
    PoolDoc,
    ProposalDoc,
    WhyDoc,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_pool(pool: PoolDoc, url: str, console: Console) -> None:
    """Print nodes, devices, leases and the queue."""
    mode = f"{pool.me}'s own pool" if pool.embedded else "pool service"
    console.print(f"[bold]{mode}[/bold] at {url}, version {pool.version}", highlight=False)
    notices = [f"{lease.id}: {notice}" for lease in pool.leases for notice in lease.notices]
    drained = [node_sentence(it) for it in pool.nodes if it.state in (NodeState.DRAINING, NodeState.DRAINED)]
    for sentence in (*pool.warnings, *drained, *notices):
        console.print(f"! {sentence}", style="bold", highlight=False, markup=False)
    console.print(_devices(pool))
    if pool.leases:
        console.print(_leases(pool))
    else:
        console.print("No leases.")


def print_why(why: WhyDoc, console: Console) -> None:
    """Print why a lease is as it is, and which leases are in the way of a request."""
    place = f", position {why.position}" if why.position is not None else ""
    console.print(f"{why.lease_id}{place}", style="bold", highlight=False, markup=False)
    for sentence in why.sentences:
        console.print(sentence, highlight=False, markup=False)
    if why.blockers:
        table = _table("In its way", "lease", "share", "of", "held for", "probably ends in")
        for it in why.blockers:
            lease = f"…{it.lease_id[-8:]} (yours)" if it.mine else "somebody else's"
            share, devices = format_compute(it.compute_milli), ", ".join(it.devices)
            held = format_duration(it.held_seconds)
            table.add_row(*_plain(lease, share, devices, held, spread(it.ends)))
        console.print(table)


def node_sentence(node: NodeDoc) -> str:
    """Say what a node is good for."""
    if node.state is NodeState.READY:
        return f"{node.hostname} takes leases."
    if node.state is NodeState.AWAY:
        return f"{node.hostname} takes leases when its agent is connected again."
    why = because(node.drain_message)
    if node.state is NodeState.DRAINED:
        return f"{node.hostname} is drained{why}. It takes no new leases, and has none."
    left = "they may stay"
    if node.drain_seconds is not None:
        left = f"they end in {format_duration(node.drain_seconds)}" if node.drain_seconds else "they end now"
    return f"{node.hostname} is being drained{why}. It takes no new leases; of those that are there, {left}."


def _table(title: str, *columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    return table


def print_proposals(proposals: Sequence[ProposalDoc], console: Console) -> None:
    """Print what would have to move for requests to fit.

    Parameters
    ----------
    proposals : sequence of ProposalDoc
        As the API tells them to an administrator.
    console : Console
        Where to.
    """
    if not proposals:
        console.print("No request waits that would fit if a few leases moved.")
        return
    table = _table("Proposals", "request", "waits for", "would have to move", "share", "from", "to")
    for it in proposals:
        name = f"{it.position}. …{it.lease_id[-8:]} ({it.owner}), {format_duration(it.waited_seconds)}"
        for number, move in enumerate(it.moves):
            first = number == 0
            table.add_row(
                *_plain(name if first else "", it.waits_for if first else ""),
                *_plain(f"…{move.lease_id[-8:]} ({move.owner})" + (f" {move.holder}" if move.holder else "")),
                *_plain(format_compute(move.compute_milli)),
                *_plain(
                    _where(move.from_device, move.from_hostname), _where(move.to_device, move.to_hostname)
                ),
            )
    console.print(table)
    console.print("The pool moves nobody: whoever has such a lease can release it and ask for it again.")


def _where(device: str, hostname: str) -> str:
    return f"{device} on {hostname}" if hostname else device


def _devices(pool: PoolDoc) -> Table:
    hosts = {node.id: node.hostname for node in pool.nodes}
    table = _table(
        f"{_count(len(pool.devices), 'device')}", "node", "device", "model", "free", "state", "use"
    )
    for device in pool.devices:
        host = hosts.get(device.node_id, device.node_id)
        table.add_row(
            *_plain(host, device.name, _model(device), _free(device), _health(device), _use(device))
        )
    return table


def _model(device: DeviceDoc) -> str:
    """Write what it is, and how leases share it."""
    if device.whole_only:
        return f"{device.model}, {describe_part(device.parent_milli)}"
    return f"{device.model}, {device.sharing}" if device.sharing else device.model


def _free(device: DeviceDoc) -> str:
    memory = format_memory(device.free_memory_bytes)
    if device.whole_only:
        return f"whole, {memory}" if device.free_compute_milli else "in use"
    return f"{format_compute(device.free_compute_milli)}, {memory}"


def _health(device: DeviceDoc) -> str:
    """Write why it is not offered, or how it is."""
    return device.withheld or f"{device.health.value}{because(device.health_reason)}"


def _use(device: DeviceDoc) -> str:
    readings = device.readings
    percent = "?" if readings.utilization_percent is None else f"{readings.utilization_percent:.0f} %"
    used = format_memory(readings.memory_used_bytes)
    return f"{percent}, {used} of {format_memory(device.memory_bytes)}"


def _leases(pool: PoolDoc) -> Table:
    queued = len(pool.queue)
    title = _count(len(pool.leases) - queued, "lease") + (f", {queued} waiting" if queued else "")
    table = _table(title, "lease", "owner", "holder", "share", "state", "for", "what happens next")
    for lease in pool.leases:
        owner = f"{lease.owner} (you)" if lease.mine else "somebody else"
        table.add_row(
            *_plain(lease.id, owner, _holder(lease), _size(lease)),
            *_plain(_state(lease), format_duration(lease.held_seconds or lease.waited_seconds), lease.reason),
        )
    return table


def _size(lease: LeaseDoc) -> str:
    """Write what is granted, and what was asked for where that is less."""
    memory = f", {format_memory(lease.memory_bytes)}" if lease.memory_bytes is not None else ""
    whole = next((share for share in lease.shares if share.whole_only), None)
    if whole is not None:
        asked = format_compute(lease.asked_compute_milli)
        return f"{whole.device_name} ({describe_part(whole.parent_milli)}){memory}; {asked} was asked for"
    names = ", ".join(
        f"{it.device_name} on {it.hostname}" if it.hostname else it.device_name for it in lease.shares
    )
    if lease.count > 1:
        each = f"{memory} each" if memory else ""
        return f"{format_compute(lease.compute_milli)} x{lease.count} of {names or 'devices'}{each}"
    return f"{format_compute(lease.compute_milli)} of {names or lease.device or 'a device'}{memory}"


def _plain(*cells: str) -> tuple[str, ...]:
    """Keep what others have typed from being read as markup."""
    from rich.markup import escape

    return tuple(escape(cell) for cell in cells)


def _holder(lease: LeaseDoc) -> str:
    holder = lease.holder
    pid = f"pid {holder.pid}" if holder.pid else ""
    return " ".join(part for part in (holder.label or holder.kernel_id[:8], pid) if part) or "-"


def _state(lease: LeaseDoc) -> str:
    return f"{lease.state.value}, {lease.position}." if lease.position else lease.state.value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
