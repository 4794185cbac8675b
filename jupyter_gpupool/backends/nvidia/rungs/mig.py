"""Rungs where the hardware is the limit: a MIG instance, or a whole GPU that is one lease's.

Rules of this module: nothing is set, so nothing has to be undone; it is called hard only where the holder
cannot open another device; the proof is that its CUDA runs on this device and on no other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import msgspec

from jupyter_gpupool.backends.nvidia import devicenodes
from jupyter_gpupool.backends.nvidia.devicenodes import ANYBODY, Identity
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Presence, Use
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.messages import ShareOrder


class _Hardware(Rung):
    """What both have in common.

    Parameters
    ----------
    presence : Presence
        Finds the holder's processes on devices.
    root : Path
        What takes the place of "/".
    """

    #: What people read as the mechanism.
    mechanism: ClassVar[str]

    def __init__(self, presence: Presence, root: Path = Path("/")) -> None:
        self._presence = presence
        self._root = root

    def refused(self, site: Site) -> str:
        """Take every holder: its environment names the device."""
        return ""

    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what our own user would get; of root's agent, somebody without rights of his own."""
        who = devicenodes.identity(os.getpid()) or ANYBODY
        somebody = ANYBODY if who.uid == 0 else who
        besides = devicenodes.open_besides(somebody, self._root / "dev", instance=gpu.is_mig)
        return self._docs(gpu, besides, Verified.PENDING)

    def intent(self, site: Site) -> msgspec.Raw:
        """There is nothing to undo."""
        return msgspec.Raw(b"{}")

    def put(self, site: Site) -> Put:
        """There is nothing to set: the lease's environment names the device."""
        return Put()

    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        """See on which device the holder's CUDA runs."""
        tree = self._presence.tree(site.lease_id, site.holder)
        use = self._presence.use(site.lease_id, site.gpu, tree)
        if use.elsewhere and not use.here:
            return [_nothing(doc, use) for doc in self._docs(site.gpu, "", Verified.READ_BACK)]
        verified = Verified.READ_BACK if use.here else Verified.PENDING
        return self._docs(site.gpu, self._besides(site), verified)

    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        """Change nothing: it is granted whole."""
        return Put()

    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        """There is nothing to undo."""

    def _besides(self, site: Site) -> str:
        """Say by what this holder could reach another device; empty if by nothing."""
        proc = self._root / "proc"
        who = devicenodes.identity(site.holder.pid, proc) or Identity(uid=site.uid)
        nodes = devicenodes.holder_nodes(site.holder.pid, proc)
        return devicenodes.open_besides(who, nodes, instance=site.gpu.is_mig)

    def _docs(self, gpu: GPU, besides: str, verified: Verified) -> list[IsolationDoc]:
        strength = Strength.SOFT if besides else Strength.HARD
        note = ""
        if besides:
            note = f"It could use another device by changing CUDA_VISIBLE_DEVICES: {besides}."
        limits = {
            Resource.MEMORY: format_memory(gpu.memory_bytes),
            Resource.COMPUTE: f"{gpu.multiprocessors or 'all'} multiprocessors",
        }
        return [
            IsolationDoc(
                resource=resource,
                strength=strength,
                mechanism=self.mechanism,
                limit=limit,
                verified=verified,
                note=note,
            )
            for resource, limit in limits.items()
        ]


class MIGRung(_Hardware):
    """A MIG instance."""

    name = RungName.MIG
    mechanism = "MIG instance"

    def impossible(self, gpu: GPU) -> str:
        """Tell a MIG instance from a GPU."""
        return "" if gpu.is_mig else "it is not a MIG instance"


class WholeRung(_Hardware):
    """A whole GPU."""

    name = RungName.WHOLE
    mechanism = "the whole device is the lease's"

    def impossible(self, gpu: GPU) -> str:
        """Every device can be one lease's."""
        return ""


def _nothing(doc: IsolationDoc, use: Use) -> IsolationDoc:
    """Say that the holder computes on another device."""
    where, pids = next(iter(use.elsewhere.items()))
    return msgspec.structs.replace(
        doc,
        strength=Strength.NONE,
        note=f"Its CUDA runs on {where} (process {pids[0]}) and not on this device: restart the kernel.",
    )
