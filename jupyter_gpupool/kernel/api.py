"""The Python API: what the magics do, for programs.

Rule of this module: synchronous; each function is one question or one request to the pool.
"""

from __future__ import annotations

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import parse_compute, parse_duration, parse_memory
from jupyter_gpupool.kernel.acquire import Acquisition
from jupyter_gpupool.kernel.cuda import cuda_started, late_sentence, restart_gives_more
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.process import Process, label, this_process
from jupyter_gpupool.kernel.progress import waiting_line
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    HolderRequest,
    LeaseRequest,
    PoolDoc,
)


def request(
    share: str | float,
    *,
    memory: str | int | None = None,
    kind: str | DeviceKind | None = None,
    device: str | None = None,
    wait: str | float | bool | None = None,
    hold: str | float | None = None,
) -> Lease:
    """Ask the pool for a share of a device, and wait until it is in force for this process.

    Parameters
    ----------
    share : str or float
        Part of one device's compute: ``0.25``, ``"1/4"``, ``"25%"`` or ``"250m"``.
    memory : str or int, optional
        ``"8GiB"``, or bytes; without it the same fraction of the device's memory.
    kind : str or DeviceKind, optional
        ``"cuda"`` or ``"cpu"``; without it the pool chooses (CUDA where there is any).
    device : str, optional
        One device, by its name or id.
    wait : str or float or bool, optional
        How long to wait for room: ``"2m"``, seconds, ``False`` for not at all; None for ever.
    hold : str or float, optional
        How long to hold it at most: ``"2h"``, seconds; None for ever.

    Returns
    -------
    Lease
        In force; use it in a ``with`` block, or release it.

    Raises
    ------
    GPUPoolError
        If it is refused or ends before it is in force; one sentence with the next step.
    KeyboardInterrupt
        If the wait was interrupted; nothing is held or queued then.

    Examples
    --------
    >>> import jupyter_gpupool as gpupool
    >>> with gpupool.request(0.25) as lease:  # doctest: +SKIP
    ...     train()
    """
    body = LeaseRequest(
        compute_milli=parse_compute(share),
        memory_bytes=None if memory is None else parse_memory(memory),
        kind=device_kind(kind),
        device=device or "",
        wait_seconds=_wait_seconds(wait),
        hold_seconds=None if hold is None else parse_duration(hold),
    )
    process = this_process()
    process.living()
    _tell_if_late(process, body.kind)
    body.holder = HolderRequest(key=process.key, label=label())
    doc, settings = Acquisition(process.client, waiting_line()).request(body)
    lease = Lease(process, doc, settings)
    process.hold(lease)
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


def devices() -> list[DeviceDoc]:
    """List the devices of the pool."""
    return this_process().client.devices()


def pool() -> PoolDoc:
    """Read the snapshot of the pool: devices, leases, queue."""
    return this_process().client.pool()


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
