"""The port that every rung fills.

Rules: a rung says beforehand whether it is possible and, if not, why; what it changed is in the record that
it returns (JSON, so that the next agent can undo it); what is in force is found by looking, and `pending`
until it was seen on the holder's first CUDA context.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from jupyter_gpupool.backends.base import ProcessMark
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import DeviceCap, ShareOrder


class RungName(Enum):
    """The mechanisms, strongest first."""

    #: A MIG instance: memory and compute are the hardware's.
    MIG = "mig"
    #: The whole device is the lease's: nobody else's lease is on it.
    WHOLE = "whole"
    #: The driver's memory limit for a control group (R615 or newer).
    DRIVER = "driver"
    #: CUDA MPS: a cap on compute, and on memory through the server.
    MPS = "mps"
    #: Caps of frameworks in the holder, and a watch on its use.
    FRAMEWORK = "framework"


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Where a rung is to be put: one share of one device for one holder.

    Attributes
    ----------
    lease_id : str
        The lease.
    gpu : GPU
        Its device.
    share : ShareOrder
        Its share.
    holder : ProcessMark
        Its process.
    uid : int
        The process's user.
    cuda_started : bool
        True when the process has initialised CUDA already, so that no environment reaches it any more.
    """

    lease_id: str
    gpu: GPU
    share: ShareOrder
    holder: ProcessMark
    uid: int
    cuda_started: bool


@dataclass(kw_only=True, slots=True)
class Put:
    """What a rung did for a site.

    Attributes
    ----------
    record : msgspec.Raw
        All that `look`, `resize` and `take_away` need later, JSON.
    environment : dict of str to str
        For the holder and its children.
    caps : list of DeviceCap
        For frameworks in the holder.
    notices : list of str
        Sentences for the person at the holder.
    """

    record: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))
    environment: dict[str, str] = field(default_factory=dict)
    caps: list[DeviceCap] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


class Rung(abc.ABC):
    """One mechanism of isolation."""

    #: Which it is.
    name: RungName

    @abc.abstractmethod
    def impossible(self, gpu: GPU) -> str:
        """Say why the rung is not possible on a device, one clause; empty when it is."""

    @abc.abstractmethod
    def refused(self, site: Site) -> str:
        """Say why the rung is not possible for this holder (uid, CUDA started); empty when it is."""

    def most_leases(self, gpu: GPU) -> int | None:
        """Return how many leases a device can carry by this rung; None for any number."""
        return None

    @abc.abstractmethod
    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what a share would get, before there is a holder; ``verified`` is PENDING."""

    @abc.abstractmethod
    def intent(self, site: Site) -> msgspec.Raw:
        """Return a record by which `take_away` undoes whatever `put` may have begun."""

    @abc.abstractmethod
    def put(self, site: Site) -> Put:
        """Put the limits in force, or raise a `BackendError` and leave nothing changed."""

    @abc.abstractmethod
    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        """Look at what is in force for the holder now; PENDING as long as it has no CUDA context."""

    @abc.abstractmethod
    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        """Put the new share of ``site`` in force; on any error the old one holds."""

    @abc.abstractmethod
    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        """Undo everything; idempotent, also after a crash and for a record made by `intent`."""

    def quiesce(self, site: Site, record: msgspec.Raw, pids: list[int]) -> None:  # noqa: B027
        """Make it safe to signal the processes; bounded in time. Most rungs need nothing."""

    def tidy(self) -> None:  # noqa: B027
        """End what neither leases nor processes use any more; cheap when there is nothing."""
