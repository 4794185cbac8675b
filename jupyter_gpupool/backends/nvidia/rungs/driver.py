"""The driver's memory limit for a control group (R615 or newer): all device memory counts, whoever takes it.

Rules of this module: the driver is asked whether it knows the function, never its version; a group that is
the holder's alone is limited where it is, and only otherwise one of ours is made; the reservation is zeroed
before a group is removed, because the driver would keep it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from jupyter_gpupool.backends import leasegroups
from jupyter_gpupool.backends._nvml import NVML, Reading, Reason
from jupyter_gpupool.backends.base import BackendError, LimitNotInForce
from jupyter_gpupool.backends.cgroups import ControlGroups, Hierarchy
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder

#: The driver's "no limit", bytes; the binding's constant where it has one.
_UNLIMITED = 2**64 - 1
MECHANISM = "driver memory limit of a control group"
#: What the driver answers for a group that it does not know a limit of.
_NO_LIMIT_YET = frozenset({Reason.NOT_FOUND})


class DriverRecord(msgspec.Struct, kw_only=True):
    """What was done for one lease."""

    device_id: str = ""
    #: The limited group's directory; empty before it was chosen.
    group: str = ""
    #: The group as the driver names it.
    namespace: str = ""
    #: Where the holder was before, if we made the group.
    home: str = ""
    #: What somebody else had set for a group that is not ours, bytes; None for no limit.
    soft_before: int = 0
    hard_before: int | None = None


_decoder = msgspec.json.Decoder(DriverRecord)


class DriverRung(Rung):
    """Limits by ``nvmlDeviceSetMemoryLimits_v1``.

    Parameters
    ----------
    nvml : NVML
        The door.
    presence : Presence
        Finds the holder's processes.
    groups : ControlGroups, optional
        The control groups of this machine.
    agent_uid : int, optional
        The agent's user.
    """

    name = RungName.DRIVER

    def __init__(
        self,
        nvml: NVML,
        presence: Presence,
        groups: ControlGroups | None = None,
        *,
        agent_uid: int | None = None,
    ) -> None:
        self._nvml = nvml
        self._presence = presence
        self._groups = groups or ControlGroups()
        self._agent_uid = os.geteuid() if agent_uid is None else agent_uid

    # --- whether it is possible ---------------------------------------------------------------------

    def impossible(self, gpu: GPU) -> str:
        """Ask bindings, driver, kernel and our own rights."""
        if gpu.is_mig:
            return "MIG instances cannot have them"
        if self._agent_uid != 0:
            return "only an administrator may set them, and the agent is not one"
        hierarchy = self._hierarchy()
        if hierarchy is None:
            return "no version 2 control groups are mounted"
        found = self._ask(gpu.uuid, "/")
        return "" if not found.reason or found.reason in _NO_LIMIT_YET else str(found.reason)

    def refused(self, site: Site) -> str:
        """Say why this holder's group cannot be limited."""
        try:
            self._choose(site, make=False)
        except leasegroups.NotDelegated as reason:
            return str(reason)
        return ""

    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what a share would get; a holder like the agent may have no group that can be limited."""
        try:
            leasegroups.v2_base(self._groups, os.getpid(), frozenset())
            note = ""
        except leasegroups.NotDelegated as reason:
            note = f"Only a holder with a control group for itself gets it here: {reason}."
        return [self._doc(share, Strength.HARD, Verified.PENDING, note)]

    # --- what is done -------------------------------------------------------------------------------

    def intent(self, site: Site) -> msgspec.Raw:
        """Name the group that will be limited."""
        try:
            return _dump(self._choose(site, make=False))
        except leasegroups.NotDelegated:
            return _dump(DriverRecord(device_id=site.gpu.uuid))

    def put(self, site: Site) -> Put:
        """Limit the holder's group, and read the limit back."""
        try:
            record = self._choose(site, make=True)
            self._move_in(site, record)
            self._set(site.gpu.uuid, record.namespace, site.share.memory_bytes)
        except (OSError, leasegroups.NotDelegated, BackendError) as error:
            self.take_away(site.lease_id, self.intent(site))
            if isinstance(error, BackendError):
                raise
            raise LimitNotInForce(f"The driver's memory limit cannot be set: {error}.") from error
        return Put(record=_dump(record))

    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        """Read the limit, and see that the holder is still under it."""
        mine = _decoder.decode(record)
        found = self._ask(site.gpu.uuid, mine.namespace)
        if found.value != site.share.memory_bytes:
            why = found.reason or f"the driver says {found.value} bytes"
            return [
                self._doc(site.share, Strength.NONE, Verified.READ_BACK, f"It does not read back: {why}.")
            ]
        tree = self._presence.tree(site.lease_id, site.holder)
        inside = leasegroups.members(Path(mine.group))
        use = self._presence.use(site.lease_id, site.gpu, tree)
        if outside := [process.pid for process in use.here if process.pid not in inside]:
            note = f"Process {outside[0]} left the control group, and its limit."
            return [self._doc(site.share, Strength.NONE, Verified.READ_BACK, note)]
        strength, note = self._strength(site, mine)
        verified = Verified.READ_BACK if use.here else Verified.PENDING
        return [self._doc(site.share, strength, verified, note)]

    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        """Set another limit; the driver takes it at any time."""
        mine = _decoder.decode(record)
        self._set(site.gpu.uuid, mine.namespace, site.share.memory_bytes)
        return Put(record=record)

    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        """Zero the reservation, lift the limit, bring the processes home, remove the group."""
        mine = _decoder.decode(record)
        if not mine.group:
            return
        hard = self._unlimited if mine.hard_before is None else mine.hard_before
        self._write(mine.device_id, mine.namespace, soft=mine.soft_before, hard=hard)
        if not mine.home:
            return
        group, home = Path(mine.group), Path(mine.home)
        for pid in sorted(leasegroups.members(group)):
            with contextlib.suppress(OSError):  # it ended, or its old group takes no processes any more
                leasegroups.move(pid, home)
        leasegroups.remove_group(group)

    # --- groups -------------------------------------------------------------------------------------

    def _hierarchy(self) -> Hierarchy | None:
        return next((each for each in self._groups.hierarchies() if each.version == 2), None)

    def _choose(self, site: Site, *, make: bool) -> DriverRecord:
        """Choose the group: the holder's where it has it for itself, else one of ours."""
        hierarchy = self._hierarchy()
        if hierarchy is None:
            raise leasegroups.NotDelegated("no version 2 control groups are mounted")
        own = self._groups.where(hierarchy, "", site.holder.pid)
        if own is None:
            raise leasegroups.NotDelegated("the holder's control group is not visible here")
        tree = {mark.pid for mark in self._presence.tree(site.lease_id, site.holder)}
        home = ""
        group = own
        if own == hierarchy.mount or not leasegroups.members(own) <= tree:
            base = leasegroups.v2_base(self._groups, site.holder.pid, frozenset())
            group, home = base / f"{leasegroups.OUR_GROUP}-{site.lease_id}", str(own)
            if make:
                leasegroups.make_group(base, 2, site.lease_id)
        namespace = f"{hierarchy.inner.rstrip('/')}/{group.relative_to(hierarchy.mount)}"
        record = DriverRecord(device_id=site.gpu.uuid, group=str(group), namespace=namespace, home=home)
        before = self._limits(site.gpu.uuid, namespace).value
        if not home and before is not None:
            record.soft_before = int(before.softLimit)
            record.hard_before = int(before.hardLimit) or None
        return record

    def _move_in(self, site: Site, record: DriverRecord) -> None:
        """Bring the holder's tree into a group of ours."""
        if record.home:
            group = Path(record.group)
            inside = leasegroups.members(group)
            for mark in self._presence.tree(site.lease_id, site.holder):
                if mark.pid not in inside:
                    leasegroups.move(mark.pid, group)

    def _strength(self, site: Site, record: DriverRecord) -> tuple[Strength, str]:
        if site.uid in {0, self._agent_uid}:
            return Strength.SOFT, "The holder's user is the agent's, and could lift it."
        if leasegroups.open_to(Path(record.group), site.uid):
            return Strength.SOFT, "The holder's user may write to the control group, and so could leave it."
        return Strength.HARD, ""

    # --- the driver ---------------------------------------------------------------------------------

    @property
    def _unlimited(self) -> int:
        return self._nvml.constant("NVML_DEVICE_MEMORY_LIMIT_MAX") or _UNLIMITED

    def _set(self, uuid: str, namespace: str, size: int) -> None:
        """Set limit and reservation, and look.

        Raises
        ------
        LimitNotInForce
            If the driver refuses, or the limit reads back as another.
        """
        if reason := self._write(uuid, namespace, soft=size, hard=size):
            raise LimitNotInForce(f"The driver does not take a memory limit for {namespace}: {reason}.")
        found = self._ask(uuid, namespace)
        if found.value != size:
            raise LimitNotInForce(
                f"The driver's memory limit for {namespace} reads back as {found.value} bytes, not {size}."
            )

    def _write(self, uuid: str, namespace: str, *, soft: int, hard: int) -> str:
        """Set both numbers; return why not."""
        handle = self._nvml.handle(uuid)
        if handle.value is None:
            return handle.reason
        limits = self._nvml.structure(
            "c_nvmlSetMemoryLimits_v1_t", nameSpace=namespace.encode(), softLimit=soft, hardLimit=hard
        )
        if limits is None:
            return Reason.BINDINGS_TOO_OLD
        return self._nvml.read("nvmlDeviceSetMemoryLimits_v1", handle.value, limits).reason

    def _ask(self, uuid: str, namespace: str) -> Reading[int]:
        """Read a group's hard limit."""
        found = self._limits(uuid, namespace)
        return Reading(None, found.reason) if found.value is None else Reading(int(found.value.hardLimit))

    def _limits(self, uuid: str, namespace: str) -> Reading[Any]:
        """Read what the driver knows of a group."""
        handle = self._nvml.handle(uuid)
        if handle.value is None:
            return handle
        limits = self._nvml.structure("c_nvmlGetMemoryLimits_v1_t", nameSpace=namespace.encode())
        if limits is None:
            return Reading(None, Reason.BINDINGS_TOO_OLD)
        answer = self._nvml.read("nvmlDeviceGetMemoryLimits_v1", handle.value, limits)
        return Reading(None, answer.reason) if answer.reason else Reading(limits)

    @staticmethod
    def _doc(share: ShareOrder, strength: Strength, verified: Verified, note: str = "") -> IsolationDoc:
        return IsolationDoc(
            resource=Resource.MEMORY,
            strength=strength,
            mechanism=MECHANISM,
            limit=format_memory(share.memory_bytes),
            verified=verified,
            note=note,
        )


def _dump(record: DriverRecord) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(record))
