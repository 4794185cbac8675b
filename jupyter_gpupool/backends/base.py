"""The port that every backend fills.

Rules: a backend is synchronous and holds no lease state of its own beyond what an `Attachment` carries, so
that an agent that restarts can adopt a holder from its record. What is in force is found by looking
afterwards, never assumed.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TypeVar

import msgspec

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceCap, DeviceReport, DeviceSample, LeaseSample, ShareOrder

T = TypeVar("T")


class BackendError(GPUPoolError):
    """Branch of the errors of backends."""

    code = "backend_error"


class HolderTooLarge(BackendError):
    """Raised when a process already uses more than the share. Free memory in it, or ask for more."""

    code = "holder_too_large"


class HolderGone(BackendError):
    """Raised when the process ended before it could be attached. Nothing needs to be done."""

    code = "holder_gone"


class LimitNotInForce(BackendError):
    """Raised when a limit was set but reads back as another. Nothing was left changed; report it."""

    code = "limit_not_in_force"


class ProcessMark(msgspec.Struct, kw_only=True, frozen=True):
    """One process for life: a pid that is reused has another start time."""

    pid: int
    #: Field 22 of /proc/PID/stat, clock ticks since boot.
    start_ticks: int


class Attachment(msgspec.Struct, kw_only=True):
    """A share in force on a holder: all that is needed to watch it, resize it and undo it.

    It is written to disk by the agent (JSON) and handed back after a restart; ``undo`` is the backend's
    own (original limits by process, names of control groups).
    """

    lease_id: str
    share: ShareOrder
    holder: ProcessMark
    isolation: list[IsolationDoc]
    #: Environment for the holder and its future children.
    environment: dict[str, str]
    #: Threads for numeric libraries; None to leave them alone.
    threads: int | None
    undo: msgspec.Raw = msgspec.Raw(b"{}")
    #: Caps that the holder puts on frameworks itself.
    caps: list[DeviceCap] = []
    #: Sentences that the person at the holder should read.
    notices: list[str] = []


def read_undo(attachment: Attachment, decoder: msgspec.json.Decoder[T], unreadable: str) -> T:
    """Read what a backend wrote into an attachment.

    Raises
    ------
    BackendError
        If it cannot be read; ``unreadable`` begins the sentence.
    """
    try:
        return decoder.decode(attachment.undo)
    except msgspec.DecodeError as error:
        raise BackendError(
            f"{unreadable}: {error}.", hint="Restart the holder to be rid of its limits."
        ) from error


class Demand(Enum):
    """What a backend asks the agent to do to a holder that goes on exceeding its share."""

    #: Interrupt what it runs, as the stop button does.
    INTERRUPT = "interrupt"
    #: End its processes.
    END = "end"


#: Writes an attachment down before anything is changed, so that whoever comes next can undo it.
Note = Callable[[Attachment], None]


def no_note(attachment: Attachment) -> None:
    """Write nothing down (for tests and probes, which undo what they do themselves)."""


class Backend(abc.ABC):
    """One kind of device."""

    @abc.abstractmethod
    def discover(self) -> list[DeviceReport]:
        """List the devices that are here. Called at start and on refresh; takes no locks."""

    @abc.abstractmethod
    def sample(self, leases: list[Attachment]) -> list[DeviceSample]:
        """Read telemetry of all devices; ``leases`` are those attached to them now."""

    @abc.abstractmethod
    def attach(
        self, lease_id: str, share: ShareOrder, holder: ProcessMark, note: Note = no_note
    ) -> Attachment:
        """Put a running process, all its threads and its children under a share.

        Calls ``note`` with an attachment that says how to undo everything, before anything is changed.

        Raises
        ------
        HolderTooLarge
            If it already uses more memory than the share; the message has both numbers.
        HolderGone
            If it ended meanwhile.
        LimitNotInForce
            If what was set does not read back.
        """

    @abc.abstractmethod
    def resize(self, attachment: Attachment, share: ShareOrder) -> Attachment:
        """Put another share in force for an attached holder; on any error the old one holds."""

    @abc.abstractmethod
    def watch(self, attachment: Attachment) -> LeaseSample:
        """Look at the holder's process tree: bring new children under the limits, act on the sum."""

    def admit(self, share: ShareOrder, frameworks: Mapping[str, str]) -> None:  # noqa: B027 - most take all
        """Refuse a holder that may not share the device, before `attach`.

        Raises
        ------
        BackendError
            If the rules of the node do not let these frameworks share the device.
        """

    def demand(self, attachment: Attachment) -> Demand | None:
        """Say what has to be done to a holder, after `watch`; None for nothing."""
        return None

    def quiesce(self, attachment: Attachment, pid: int = 0) -> None:  # noqa: B027 - most devices need nothing
        """Make it safe to signal the holder's processes; bounded in time, and nothing for most devices.

        With ``pid`` only that one of them, and its children: a server's other kernels go on.
        """

    def prove(self, device_ids: Collection[str]) -> None:  # noqa: B027 - not all can
        """Begin to exceed the limits of these idle devices in children, in the background.

        What was tried already for a device, its driver and a mechanism is not tried again.
        """

    def close(self) -> None:  # noqa: B027 - most open nothing
        """Let go of what was opened; what is attached stays attached."""

    @abc.abstractmethod
    def detach(self, attachment: Attachment) -> None:
        """Restore exactly what was there before, on every process that still lives; idempotent."""
