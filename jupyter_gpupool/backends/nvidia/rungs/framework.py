"""The rung that works everywhere: frameworks are told how much they may take, and the use is watched.

Rules of this module: it is soft and says so; a cap leaves room for what CUDA itself takes in each process;
where the driver does not say what a process uses, it says that nobody watches.
"""

from __future__ import annotations

import msgspec

from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.presence import Presence
from jupyter_gpupool.backends.nvidia.rungs.base import Put, Rung, RungName, Site
from jupyter_gpupool.backends.rules import Action, NodeRules
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.core.shares import format_duration, format_memory
from jupyter_gpupool.protocol.documents import IsolationDoc
from jupyter_gpupool.protocol.frameworks import cap_environment
from jupyter_gpupool.protocol.messages import DeviceCap, ShareOrder

#: What a CUDA context and its libraries take in a process, bytes; of a small share at most this part.
CONTEXT_BYTES, _CONTEXT_PART = 512 * 2**20, 8
MECHANISM = "framework caps, use watched"
_WHAT_IS_DONE = {
    Action.SHOW: "it is shown",
    Action.WARN: "its owner is told",
    Action.INTERRUPT: "what it runs is interrupted",
    Action.END: "it is ended",
}


def cap_bytes(share: ShareOrder) -> int:
    """Return how much memory of a share frameworks may take, bytes."""
    return share.memory_bytes - min(CONTEXT_BYTES, share.memory_bytes // _CONTEXT_PART)


class FrameworkRung(Rung):
    """Caps of PyTorch, JAX, CuPy, TensorFlow and RMM.

    Parameters
    ----------
    presence : Presence
        Finds the holder's processes on devices.
    rules : NodeRules
        What is done about holders that exceed their share.
    """

    name = RungName.FRAMEWORK

    def __init__(self, presence: Presence, rules: NodeRules) -> None:
        self._presence = presence
        self._rules = rules

    def impossible(self, gpu: GPU) -> str:
        """Work everywhere."""
        return ""

    def refused(self, site: Site) -> str:
        """Take every holder: the caps reach also frameworks that are loaded."""
        return ""

    def promise(self, gpu: GPU, share: ShareOrder) -> list[IsolationDoc]:
        """Say what a share would get."""
        return [self._doc(share, Verified.PENDING)]

    def intent(self, site: Site) -> msgspec.Raw:
        """There is nothing that outlives the holder."""
        return msgspec.Raw(b"{}")

    def put(self, site: Site) -> Put:
        """Return what the holder sets and applies."""
        cap, total = cap_bytes(site.share), site.gpu.memory_bytes
        return Put(
            environment=cap_environment(cap, total),
            caps=[DeviceCap(device_id=site.gpu.uuid, memory_bytes=cap, total_bytes=total)],
        )

    def look(self, site: Site, record: msgspec.Raw) -> list[IsolationDoc]:
        """See whether its use can be watched."""
        tree = self._presence.tree(site.lease_id, site.holder)
        use = self._presence.use(site.lease_id, site.gpu, tree)
        if use.unknown or (use.here and use.memory_bytes is None):
            reason = use.unknown or "the driver does not say what a process uses"
            return [self._doc(site.share, Verified.PENDING, unwatched=reason)]
        return [self._doc(site.share, Verified.READ_BACK if use.here else Verified.PENDING)]

    def resize(self, site: Site, record: msgspec.Raw) -> Put:
        """Return other caps; the holder applies them."""
        return self.put(site)

    def take_away(self, lease_id: str, record: msgspec.Raw) -> None:
        """There is nothing that outlives the holder."""

    def _doc(self, share: ShareOrder, verified: Verified, *, unwatched: str = "") -> IsolationDoc:
        rules = self._rules
        note = (
            f"PyTorch, JAX, CuPy, TensorFlow and RMM take at most {format_memory(cap_bytes(share))} in each"
            " process, which leaves room for CUDA itself; other code is not stopped."
        )
        if unwatched:
            note += f" Nobody can watch its use here: {unwatched}."
        else:
            done = _WHAT_IS_DONE[rules.over_limit]
            note += (
                " All its processes are summed; when they use more than the share for"
                f" {format_duration(rules.grace_seconds)}, {done}."
            )
        return IsolationDoc(
            resource=Resource.MEMORY,
            strength=Strength.SOFT,
            mechanism="framework caps" if unwatched else MECHANISM,
            limit=format_memory(share.memory_bytes),
            verified=verified,
            note=note,
        )
