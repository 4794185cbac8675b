"""A lease in the process that holds it.

Rules of this module: its end is always explicit (``release``, the end of a ``with`` block, or the end of the
process, which the agent sees) or the pool's; nothing is asked of the pool by ``repr``; after a fork it does
nothing in the child.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, UnknownLease
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import WHOLE_MILLI, parse_compute, parse_memory
from jupyter_gpupool.kernel import render
from jupyter_gpupool.kernel.attach import AppliedSettings
from jupyter_gpupool.kernel.cuda import cuda_started, leftover_sentence
from jupyter_gpupool.kernel.errors import NotHolder
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.threads import usable_cores
from jupyter_gpupool.kernel.words import share_of
from jupyter_gpupool.protocol.documents import IsolationDoc, LeaseDoc, PartDoc

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.process import Process

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
        self._first_share = doc.shares[0] if doc.shares else None
        #: The companion thread and the user's may hear of the same change at the same time.
        self._lock = threading.RLock()
        #: True while this process gives it back: its end is no news then.
        self._releasing = False

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
    def pinned(self) -> bool:
        """Whether its owner wants it not to be taken back."""
        return self._doc.pinned

    @property
    def parts(self) -> tuple[PartDoc, ...]:
        """What it has on each node, and who joined it there; empty unless its devices are on several."""
        return tuple(self._doc.parts)

    @property
    def variables_before(self) -> dict[str, str | None]:
        """What the environment variables were that this process has because of it; None where not set."""
        return self._settings.before

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that its owner should read now."""
        return tuple(self.all_notices())

    @property
    def doc(self) -> LeaseDoc:
        """Everything that the pool said of it when last asked."""
        return self._doc

    @property
    def shown_doc(self) -> LeaseDoc:
        """The same, with what the agent and the frameworks had to say."""
        return structs.replace(self._doc, notices=self.all_notices())

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

    def pin(self) -> Lease:
        """Have it not taken back while it is idle, or for others, as far as the quota allows pins.

        Raises
        ------
        GPUPoolError
            If the quota does not allow another.
        """
        return self._pin(pinned=True)

    def unpin(self) -> Lease:
        """Let it be taken back again."""
        return self._pin(pinned=False)

    def _pin(self, *, pinned: bool) -> Lease:
        if self.here:
            if not self._confirmed:
                self._ask()
            self._note(self._process.client.pin(self.id, pinned=pinned))
        return self

    def all_notices(self) -> list[str]:
        """Return what the agent, the frameworks and the pool have to say, each once."""
        doc = self._doc
        said = doc.notices
        if doc.reclaim_seconds is not None and not self._process.held.keys() - {self.id}:
            from jupyter_gpupool.kernel.move import naming_the_move

            said = naming_the_move(doc)
        return list(dict.fromkeys([*self._settings.notices, *said]))

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

    def settle_threads(self) -> None:
        """Have the thread counts count for the calling thread, too, where another one has set them."""
        self._settings.settle()

    def release(self) -> None:
        """Give it back; doing it twice, or in a forked child, does nothing."""
        if not self.here or self._doc.state is LeaseState.ENDED:
            return
        self._releasing = True
        try:
            with suppress(UnknownLease):  # it ended by itself
                self._note(self._process.client.release(self.id))
            self._over()
        finally:
            self._releasing = False
        if sentence := self.leftover():
            tell(sentence)

    def leftover(self) -> str:
        """Say what this process keeps of the device after the end; empty when that is nothing."""
        return leftover_sentence(self.device) if self.kind is DeviceKind.CUDA and cuda_started() else ""

    def _ask(self) -> LeaseDoc:
        """Read the lease; the first time, once the pool has heard that this process is attached."""
        known = self._doc  # before the look: the companion may hear of it in between
        if self._confirmed:
            return self._process.client.lease(self.id)
        doc = self._process.client.lease(self.id, since=known.tag, wait_seconds=_CONFIRM_SECONDS)
        self._confirmed = True
        return doc

    def heard(self, doc: LeaseDoc, known: LeaseDoc) -> bool:
        """Take over what the companion heard; False when it is old news, or this process's own doing."""
        with self._lock:
            if self._doc is not known or self._releasing:
                return False
            self._confirmed = True
            self._note(doc)
            return True

    def ended(self, doc: LeaseDoc | None) -> bool:
        """Note what the companion heard of its end (None: the pool does not know it any more).

        False when that is this process's own doing, or known already.
        """
        with self._lock:
            if self._releasing or self._doc.state in (LeaseState.ENDING, LeaseState.ENDED):
                return False
            self._note(doc or structs.replace(self._doc, state=LeaseState.ENDED, reason="Ended."))
            return True

    def _note(self, doc: LeaseDoc) -> None:
        with self._lock:
            before, self._doc = self._doc, doc
            if doc.state in (LeaseState.ENDING, LeaseState.ENDED):
                self._over()
            elif doc.shares and self._first_share is not None and doc.shares != before.shares:
                self._settings.follow(self._first_share, doc.shares[0])

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
        return f"<Lease {self.id}: {share_of(self._doc)}, {self._doc.state.value}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return render.lease(self.shown_doc)._repr_mimebundle_()

    def _repr_html_(self) -> str:
        return render.lease(self.shown_doc).markup
