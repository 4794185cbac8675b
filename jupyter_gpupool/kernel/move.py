"""Moving this kernel to the node that has room: its state is saved, its lease goes ahead, it ends.

Rules of this module: nothing is given up before the state is saved where the other node can read it, and the
pool has said that there is room; what fails before the lease has gone leaves the kernel as it was. After
that nothing more runs in this process: whoever started it starts it again, and `kernel/moved.py` brings back
what was saved.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from jupyter_gpupool.core.errors import AlreadyHolds, DoesNotFitNow, GPUPoolError, NeverFits
from jupyter_gpupool.core.hints import ASK_ANOTHER
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_memory
from jupyter_gpupool.kernel import scaled
from jupyter_gpupool.kernel.errors import KernelMoves, NotMovable, NotOnNode
from jupyter_gpupool.kernel.moved import snapshot_name
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.process import Process, this_process
from jupyter_gpupool.kernel.shell import running_shell
from jupyter_gpupool.kernel.words import share_of
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.documents import LeaseDoc, LeaseRequest, MovedDoc, MoveRequest
from jupyter_gpupool.protocol.filesystems import network_filesystem

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.lease import Lease
    from jupyter_gpupool.kernel.snapshots.session import Session

#: For how long a kernel goes on that has moved, so that its last cell can be answered, seconds.
LEAVE_SECONDS = 0.5


def movable() -> bool:
    """Tell whether this process is a kernel that can be started on another node."""
    return bool(os.environ.get(names.ENV_MOVABLE)) and hasattr(running_shell(), "kernel")


def request_here_or_move(body: LeaseRequest) -> Lease:
    """Have another share in place of the one that this kernel has: here, or else on the node that has room.

    Parameters
    ----------
    body : LeaseRequest
        What is asked for.

    Returns
    -------
    Lease
        The present lease, with the size that was asked for, where this node has room for that.

    Raises
    ------
    KernelMoves
        If this kernel moves: its process ends.
    GPUPoolError
        If neither is possible; everything is as it was then.
    """
    process = this_process()
    lease = _the_lease(process, body)
    if _has_to_leave(process, lease) or not _resized(body, lease):
        raise _moved(process, lease, _wanted(body, lease))
    tell(f"This node has room: the lease has {share_of(lease.doc)} now, and the kernel stays.")
    return lease


@contextmanager
def offered(body: LeaseRequest) -> Iterator[None]:
    """Have a refusal name the move as the next step, where this kernel could move for what is asked for."""
    try:
        yield
    except (AlreadyHolds, DoesNotFitNow, NeverFits, NotOnNode) as error:
        error.hint = _offer(body, error) or error.hint
        raise


def _offer(body: LeaseRequest, error: GPUPoolError) -> str:
    """Say how this kernel would have what was refused; empty where it cannot move, or nowhere has room."""
    process = this_process()
    if not movable() or len(process.held) != 1 or body.count > 1:
        return ""
    (lease,) = process.held.values()
    kind = body.kind or (None if isinstance(error, NotOnNode) else lease.kind)
    wanted = _wanted(structs.replace(body, kind=kind), lease, only_ask=True)
    wanted.kind = kind
    try:
        place = process.client.move(lease.id, wanted)
    except GPUPoolError:
        return ""  # it was an offer only: what was refused first is what is said
    options = f" --kind {place.kind.value}" if place.kind is not lease.kind else ""
    share = format_compute(body.compute_milli)
    return (
        f"Node {place.hostname} has room: `%gpupool request {share}{options} --move` takes this kernel "
        "there, with its variables."
    )


def naming_the_move(doc: LeaseDoc) -> list[str]:
    """Return what the pool says of the one lease of this kernel, with the move as the next step where it can.

    Parameters
    ----------
    doc : LeaseDoc
        The lease, which is to be taken back.
    """
    if not movable() or len(doc.shares) != 1:
        return doc.notices
    share = format_compute(doc.shares[0].compute_milli)
    goes = "takes this kernel to another node that has room, with its variables."
    move = f"`%gpupool request {share} --move` {goes}"
    return [it.replace(ASK_ANOTHER, move) for it in doc.notices]


def _the_lease(process: Process, body: LeaseRequest) -> Lease:
    """Return the lease with which this kernel would move."""
    if not movable():
        raise NotMovable(
            "This kernel was not started by the pool, so it cannot be started on another node.",
            hint="`jupyter gpupool kernelspec install` adds kernels to the kernel picker that run where "
            "their share is.",
        )
    if body.count > 1:
        raise NotMovable("A kernel moves with a share of one device.", hint="Ask for one.")
    return process.only_lease()


def _wanted(body: LeaseRequest, lease: Lease, *, only_ask: bool = False) -> MoveRequest:
    return MoveRequest(
        compute_milli=body.compute_milli,
        memory_bytes=body.memory_bytes,
        kind=body.kind or (None if body.device or body.model else lease.kind),
        device=body.device,
        model=body.model,
        host_cpu_milli=body.host_cpu_milli,
        host_memory_bytes=body.host_memory_bytes,
        only_ask=only_ask,
    )


def _has_to_leave(process: Process, lease: Lease) -> bool:
    """Tell whether a lease is to be taken back where it is, or its device offers nothing any more."""
    if lease.doc.reclaim_seconds is not None:
        return True
    held = {it.device_id for it in lease.doc.shares}
    return any(it.id in held and not it.offered for it in process.client.devices())


def _resized(body: LeaseRequest, lease: Lease) -> bool:
    """Have the lease another size, where that is what is asked for; False when this node has no room."""
    named = body.device or body.model or body.host_cpu_milli or body.host_memory_bytes
    if named or body.kind not in (None, lease.kind):
        return False
    try:
        lease.resize(body.compute_milli / WHOLE_MILLI, memory=body.memory_bytes)
    except (DoesNotFitNow, NeverFits):
        return False
    return True


def _moved(process: Process, lease: Lease, wanted: MoveRequest) -> KernelMoves:
    """Save the state, let the lease go ahead, and begin to end; return what ends the cell."""
    from IPython.display import display

    from jupyter_gpupool.kernel.snapshots import api
    from jupyter_gpupool.kernel.snapshots.session import this_session

    wanted.only_ask = True
    place = process.client.move(lease.id, wanted)
    session = this_session()
    _check_store(session, place)
    name = snapshot_name(running_shell())
    with scaled.carried(session.shell):
        saved = api.checkpoint(name, note=f"for the move of a kernel to {place.hostname}")
    display(saved.rendering())  # what will not come back has to be known
    wanted.only_ask = False
    try:
        with _not_ended_yet():
            place = process.client.move(lease.id, wanted)
    except GPUPoolError as error:
        if stays(lease.doc, _look(process, lease)):
            _forget(name)
            error.hint = f"{error.hint} The kernel stays where it is.".strip()
        else:  # the answer may have been lost, and the lease be on its way
            error.hint = f"{error.hint} The state of this kernel is saved as “{name}”.".strip()
        raise
    scaled.forget(session.shell)  # it is asked for again where the kernel is then
    process.drop(lease)
    _leave()
    return KernelMoves(
        f"This kernel goes on on node {place.hostname}, with {_size(place)}: it starts there in a moment, "
        "and has its variables again with the next cell. Nothing more of this cell runs."
    )


def stays(before: LeaseDoc, now: LeaseDoc | None) -> bool:
    """Tell whether a lease is surely where it was.

    Parameters
    ----------
    before : LeaseDoc
        The lease before it was to move.
    now : LeaseDoc or None
        The lease after that has failed; None where nobody can say.
    """
    return now is not None and (now.state, now.generation) == (LeaseState.ACTIVE, before.generation)


def _look(process: Process, lease: Lease) -> LeaseDoc | None:
    try:
        return process.client.lease(lease.id)
    except GPUPoolError:
        return None


def _size(place: MovedDoc) -> str:
    devices = ", ".join(place.devices)
    return f"{format_compute(place.compute_milli)} of {devices} ({format_memory(place.memory_bytes)})"


def _check_store(session: Session, place: MovedDoc) -> None:
    """Refuse to save the state where the other node does not see it."""
    folder = session.store.folder
    if session.settings.store or folder is None or place.hostname == socket.gethostname():
        return
    if network_filesystem(Path(folder)):
        return
    raise NotMovable(
        f"Node {place.hostname} has room, but would not have this kernel's state: snapshots are kept in "
        f"{folder}, on a disk of this node.",
        hint=f"Keep them where all nodes see them: {names.ENV_STORE}, or c.GPUPoolSnapshots.store in "
        "ipython_kernel_config.py, names the place.",
    )


def _forget(name: str) -> None:
    from jupyter_gpupool.kernel.snapshots import api

    try:
        api.forget(name)
    except GPUPoolError as error:
        tell(f"What was saved for the move is still there: {error} `%gpupool forget {name}` removes it.")


@contextmanager
def _not_ended_yet() -> Iterator[None]:
    """Go on when the agent asks this process to end, so that its cell is answered; as before on a failure."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
        raise


def _leave() -> None:
    """End this process when there was time to answer its cell."""
    end = threading.Timer(LEAVE_SECONDS, os._exit, (0,))
    end.daemon = True
    end.start()
