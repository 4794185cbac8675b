"""The Python API: what the magics do, for programs.

Rule of this module: synchronous; each function is one question or one request to the pool.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue, UnknownLease
from jupyter_gpupool.core.leases import Priority
from jupyter_gpupool.core.shares import parse_cores, parse_duration, parse_memory, parse_shares
from jupyter_gpupool.kernel.acquire import Acquisition
from jupyter_gpupool.kernel.cuda import cuda_started, late_sentence, restart_gives_more
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.move import offered, request_here_or_move
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.process import Process, label, this_process
from jupyter_gpupool.kernel.progress import WaitingLine, waiting_line
from jupyter_gpupool.kernel.slices import of_server
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    HolderRequest,
    LeaseRequest,
    PoolDoc,
    WhyDoc,
)
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.wanted import Wanted


def request(
    share: str | float,
    *,
    memory: str | int | None = None,
    kind: str | DeviceKind | None = None,
    device: str | None = None,
    wait: str | float | bool | None = None,
    hold: str | float | None = None,
    count: str | int | None = None,
    spread: bool = False,
    priority: str | Priority | None = None,
    at_most: bool = False,
    cpus: str | float | None = None,
    host_memory: str | int | None = None,
    model: str | None = None,
    move: bool = False,
) -> Lease:
    """Ask the pool for a share of a device (or of several), and wait until it is in force for this process.

    Parameters
    ----------
    share : str or float
        Part of a device's compute: ``0.25``, ``"1/4"``, ``"25%"``, ``"250m"``; or a number of devices: ``2``.
    memory : str or int, optional
        ``"8GiB"``, or bytes; without it the same fraction of the device's memory.
    kind, device : str or DeviceKind, optional
        ``"cuda"`` or ``"cpu"`` (without it CUDA where there is any); one device, by its name or id.
    wait, hold : str or float or bool, optional
        How long to wait for room (``"2m"``, seconds, ``False`` for not at all), and to hold it at most.
    count : str or int, optional
        Of how many devices the share is, all or none of them: ``4`` or ``"x4"``.
    spread, at_most : bool
        Whether several devices may be on several nodes; whether to take less where a quota allows no more.
    priority : str or Priority, optional
        ``"low"``, ``"normal"`` or ``"high"``, as far as the quota allows.
    cpus, host_memory : str or float or int, optional
        Cores (``4``) and main memory (``"16GiB"``) of the node beside the share, for all of the devices.
    model : str, optional
        Words of the model's name that will do: ``"A100"``, ``"A100 80GB"``.
    move : bool
        In a kernel on a node: have it in place of what the kernel has; where its node has no room, start the
        kernel anew on the node that has, with its state.

    Returns
    -------
    Lease
        In force; use it in a ``with`` block, or release it.

    Raises
    ------
    GPUPoolError, KeyboardInterrupt
        If it is refused, ends before it is in force, or is interrupted; nothing is held or waits then.
        `KernelMoves`, if the kernel moves: nothing more of the cell runs.
    """
    body = body_of(share, memory=memory, count=count, wait=wait, hold=hold)
    body.kind, body.device, body.model = device_kind(kind), device or "", model or ""
    body.spread, body.at_most, body.priority = spread, at_most, priority_class(priority)
    body.host_cpu_milli = 0 if cpus is None else parse_cores(cpus)
    body.host_memory_bytes = 0 if host_memory is None else parse_memory(host_memory)
    return request_here_or_move(body) if move else _acquire(body)


def body_of(
    share: str | float,
    *,
    memory: str | int | None,
    count: str | int | None = None,
    wait: str | float | bool | None = None,
    hold: str | float | None = None,
) -> LeaseRequest:
    """Read how much is asked for, and how long."""
    shares = parse_shares(share, count)
    return LeaseRequest(
        compute_milli=shares.compute_milli,
        count=shares.devices,
        memory_bytes=None if memory is None else parse_memory(memory),
        wait_seconds=_wait_seconds(wait),
        hold_seconds=None if hold is None else parse_duration(hold),
    )


def request_from_thread(
    share: str | float,
    *,
    memory: str | None,
    kind: str | None,
    wait: float | None,
    line: WaitingLine,
    cell_runs: Callable[[], bool],
) -> Lease:
    """Ask for a share as `request` does, from a thread that holds nobody up.

    Parameters
    ----------
    share, memory, kind, wait
        As `request` takes them.
    line : WaitingLine
        Where to show the wait; what it raises cancels it.
    cell_runs : callable
        Tells whether a cell runs when it is granted.
    """
    body = body_of(share, memory=memory, count=None, wait=wait, hold=None)
    body.kind = device_kind(kind)
    return _acquire(body, line, cell_runs)


def request_wanted(wanted: Wanted) -> Lease:
    """Ask for what a notebook's metadata say, and wait until it is in force."""
    return _acquire(wanted.request)


def _acquire(
    body: LeaseRequest, line: WaitingLine | None = None, cell_runs: Callable[[], bool] = lambda: True
) -> Lease:
    """Send a request, and see it through."""
    process = this_process()
    if (servers := of_server(process, body)) is not None:
        return servers
    process.living()
    _tell_if_late(process, body.kind)
    body.holder = HolderRequest(key=process.key, label=label(), hostname=printable(socket.gethostname()))
    with offered(body):
        doc, settings = Acquisition(process.client, line or waiting_line()).request(body)
    lease = Lease(process, doc, settings)
    process.hold(lease, cell_runs=cell_runs())
    return lease


def _tell_if_late(process: Process, kind: DeviceKind | None) -> None:
    """Say that a restart would give more, where CUDA is initialised already; the request goes on."""
    if kind is not DeviceKind.CPU and cuda_started() and restart_gives_more(process.client.devices()):
        tell(late_sentence())


def _wait_seconds(wait: str | float | bool | None) -> float | None:
    """Read how long to wait: None for ever, 0 not at all."""
    if wait is None or wait is True:
        return None
    return 0.0 if wait in (False, 0, "0", "0s") else parse_duration(wait)


def device_kind(kind: str | DeviceKind | None) -> DeviceKind | None:
    """Read a device kind."""
    if kind is None or isinstance(kind, DeviceKind):
        return kind
    try:
        return DeviceKind(kind)
    except ValueError:
        valid = " or ".join(member.value for member in DeviceKind)
        raise InvalidValue(f"“{kind}” is not a device kind.", hint=f"Write {valid}.") from None


def priority_class(priority: str | Priority | None) -> Priority:
    """Read a priority class; without one it is normal."""
    if priority is None or isinstance(priority, Priority):
        return priority or Priority.NORMAL
    try:
        return Priority(priority)
    except ValueError:
        valid = " or ".join(member.value for member in Priority)
        raise InvalidValue(f"“{priority}” is not a priority.", hint=f"Write {valid}.") from None


def devices() -> list[DeviceDoc]:
    """List the devices of the pool."""
    return this_process().client.devices()


def pool() -> PoolDoc:
    """Read the snapshot of the pool: devices, leases, queue."""
    return this_process().client.pool()


def why(lease: str = "") -> WhyDoc:
    """Say why a lease is as it is: who is in its way, and for how long, probably.

    Parameters
    ----------
    lease : str
        One of yours, by its id or how that ends; empty for the one that this process holds, or else for the
        request of yours that comes first in the queue.

    Raises
    ------
    UnknownLease
        If there is none.
    """
    client = this_process().client
    if not lease:
        held = current()
        mine = [entry.lease_id for entry in pool().queue if entry.mine] if held is None else [held.id]
        if not mine:
            raise UnknownLease(
                "This process holds no lease, and none of your requests waits.", hint="Name a lease."
            )
        return client.why(mine[0])
    return client.why(client.called(lease))


def current(kind: str | DeviceKind | None = None) -> Lease | None:
    """Return the lease that this process holds (of that kind); None if there is none."""
    wanted = device_kind(kind)
    return next((held for held in this_process().living() if wanted in (None, held.kind)), None)


def connect(url: str, token: str | None = None) -> None:
    """Use the pool at ``url`` in this process, whatever else could be found.

    Raises
    ------
    PoolUnreachable
        If it does not answer.
    """
    process = this_process()
    process.use(url, token)
    process.client.health()
