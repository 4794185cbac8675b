"""The Python API: what the magics do, for programs.

Rules of this module: synchronous; a lease's end is always explicit (``release``, the end of a ``with`` block,
or the end of the process, which the agent sees); nothing is asked of the pool by ``repr``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue, UnknownLease
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import (
    WHOLE_MILLI,
    parse_compute,
    parse_duration,
    parse_memory,
)
from jupyter_gpupool.kernel import render
from jupyter_gpupool.kernel.acquire import Acquisition
from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.errors import NotHolder
from jupyter_gpupool.kernel.process import Process, label, this_process
from jupyter_gpupool.kernel.progress import waiting_line
from jupyter_gpupool.kernel.threads import usable_cores
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    HolderRequest,
    IsolationDoc,
    LeaseDoc,
    LeaseRequest,
    PoolDoc,
)

#: How long the agent's word that a process is attached may take to reach the pool, seconds.
_CONFIRM_SECONDS = 5.0


class Lease:
    """A share of a device, held by this process; a context manager that releases it.

    Made by `request`; after a fork it belongs to the parent only, and does nothing in the child.
    """

    def __init__(self, process: Process, doc: LeaseDoc, settings: AppliedSettings) -> None:
        self._process = process
        self._doc = doc
        self._settings = settings
        self._confirmed = False

    @property
    def id(self) -> str:
        """The lease's id for life."""
        return self._doc.id

    @property
    def state(self) -> LeaseState:
        """Where it was in its life when the pool was last asked."""
        return self._doc.state

    @property
    def kind(self) -> DeviceKind | None:
        """The kind of its device."""
        return self._doc.kind

    @property
    def device(self) -> str:
        """The name of its device."""
        return ", ".join(share.device_name for share in self._doc.shares) or self._doc.device

    @property
    def share(self) -> float:
        """The part of the device's compute, 0.001 to 1."""
        return self._doc.compute_milli / WHOLE_MILLI

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the device, bytes."""
        return self._doc.memory_bytes

    @property
    def isolation(self) -> tuple[IsolationDoc, ...]:
        """What is in force, for each resource."""
        return tuple(self._doc.isolation)

    @property
    def doc(self) -> LeaseDoc:
        """Everything that the pool said of it when last asked."""
        return self._doc

    @property
    def here(self) -> bool:
        """True in the process that holds it, False in a child that was forked from it."""
        return self._process.pid == os.getpid()

    def refresh(self) -> Lease:
        """Ask the pool how it is now."""
        if self.here:
            try:
                self._note(self._ask())
            except UnknownLease:
                self._over()
        return self

    def why(self) -> str:
        """Say what it waits for, or what happens to it next."""
        return self.refresh()._doc.reason

    def resize(self, share: str | float, *, memory: str | int | None = None) -> Lease:
        """Change the size; returns when the new limits are in force.

        Parameters
        ----------
        share : str or float
            The new share, as `request` takes it.
        memory : str or int, optional
            The new memory; without it the same fraction as of compute.

        Raises
        ------
        GPUPoolError
            If it does not fit, or the agent refuses; the old size holds then.
        NotHolder
            In a forked child.
        """
        if not self.here:
            raise NotHolder(
                f"Lease {self.id} belongs to process {self._process.pid}, not to this child of it."
            )
        compute_milli = parse_compute(share)
        memory_bytes = None if memory is None else parse_memory(memory)
        if not self._confirmed:
            self._ask()
        self._note(self._process.client.resize(self.id, compute_milli, memory_bytes))
        self._follow_threads()
        return self

    def _follow_threads(self) -> None:
        """Let thread counts follow a resize."""
        if self._settings.threads is None or not self._doc.shares:
            return
        share = self._doc.shares[0]
        units = next(
            (d.compute_units for d in self._process.client.devices() if d.id == share.device_id), None
        )
        if units is not None:
            wanted = max(1, -(-share.compute_milli * units // WHOLE_MILLI))
            self._settings.resize(min(usable_cores(), wanted))

    def release(self) -> None:
        """Give it back; doing it twice, or in a forked child, does nothing."""
        if not self.here or self._doc.state is LeaseState.ENDED:
            return
        with suppress(UnknownLease):  # it ended by itself
            self._note(self._process.client.release(self.id))
        self._over()

    def _ask(self) -> LeaseDoc:
        """Read the lease; the first time, once the pool has heard that this process is attached."""
        if self._confirmed:
            return self._process.client.lease(self.id)
        doc = self._process.client.lease(self.id, since=self._doc.tag, wait_seconds=_CONFIRM_SECONDS)
        self._confirmed = True
        return doc

    def _note(self, doc: LeaseDoc) -> None:
        self._doc = doc
        if doc.state in (LeaseState.ENDING, LeaseState.ENDED):
            self._over()

    def _over(self) -> None:
        """Put this process back as it was before."""
        self._settings.undo()
        self._process.drop(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.here:
            from jupyter_gpupool.kernel.oom import explain

            explain(error, [self])
        try:
            self.release()
        except GPUPoolError as failure:
            if error is None:
                raise
            error.add_note(f"Also, lease {self.id} could not be released: {failure}")

    def __repr__(self) -> str:
        return f"<Lease {self.id}: {render.share_of(self._doc)}, {self._doc.state.value}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return render.lease(self._doc)._repr_mimebundle_()

    def _repr_html_(self) -> str:
        return render.lease(self._doc).markup


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
    body.holder = HolderRequest(key=process.key, label=label())
    doc, settings = Acquisition(process.client, waiting_line()).request(body)
    lease = Lease(process, doc, settings)
    process.hold(lease)
    return lease


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
