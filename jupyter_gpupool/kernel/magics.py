"""What ``%gpupool`` and ``%%gpupool`` do.

Rules of this module: each command is one call of the Python API and one rendering; an error of ours is shown
as one sentence with the next step, never as a traceback.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.kernel import api, render
from jupyter_gpupool.kernel.cell import run_cell
from jupyter_gpupool.kernel.commands import HelpShown, cell_parser, parse, parse_line
from jupyter_gpupool.kernel.lease import Lease
from jupyter_gpupool.kernel.move import offered
from jupyter_gpupool.kernel.process import this_process
from jupyter_gpupool.kernel.words import line, share_of

#: Of how many requests that wait it is said why.
_EXPLAINED = 8


def run_line(text: str) -> Any:
    """Run ``%gpupool TEXT``; what it returns is displayed."""
    __tracebackhide__ = True
    try:
        with plain_errors():
            arguments = parse_line(text)
            if arguments.command in _COMMANDS:
                return _COMMANDS[arguments.command](arguments)
            from jupyter_gpupool.kernel.snapshots.magics import HANDLERS

            return HANDLERS[arguments.command](arguments)
    except HelpShown:
        return None


def run_cell_under_lease(shell: Any, text: str, body: str) -> None:
    """Run ``%%gpupool TEXT``: a lease for this cell only, released also when it fails."""
    __tracebackhide__ = True
    try:
        with plain_errors():
            lease = _request(parse(cell_parser(), text))
    except HelpShown:
        return
    with lease:
        print(f"This cell has {line(lease.doc)}.")  # noqa: T201 - the cell's output
        run_cell(shell, body)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let errors of ours, and the stop button, show as one sentence."""
    try:
        yield
    except (GPUPoolError, KeyboardInterrupt) as error:
        shown = [f"{type(error).__name__}: {str(error) or 'Stopped.'}"]
        # IPython asks an exception how it wants to be shown.
        error._render_traceback_ = lambda: shown  # type: ignore[union-attr]
        raise


def _here() -> list[str]:
    return list(this_process().held)


def _kind(arguments: Namespace) -> DeviceKind | None:
    return api.device_kind(arguments.kind)


def _show_pool(_: Namespace) -> render.Rendering:
    return render.pool(api.pool(), _here())


def _request(arguments: Namespace) -> Lease:
    return api.request(
        arguments.share,
        memory=arguments.memory,
        kind=arguments.kind,
        device=arguments.device,
        wait=False if arguments.no_wait else arguments.wait,
        hold=getattr(arguments, "for"),
        count=arguments.count,
        spread=arguments.spread,
        priority=arguments.priority,
        at_most=arguments.at_most,
        cpus=arguments.cpus,
        host_memory=arguments.host_memory,
        model=arguments.model,
        move=getattr(arguments, "move", False),
    )


def _resize(arguments: Namespace) -> Lease:
    lease = this_process().only_lease(_kind(arguments))
    with offered(api.body_of(arguments.share, memory=arguments.memory)):
        return lease.resize(arguments.share, memory=arguments.memory)


def _release(arguments: Namespace) -> render.Rendering:
    lease = this_process().only_lease(_kind(arguments))
    share = share_of(lease.doc)
    lease.release()
    held = format_duration(lease.doc.held_seconds)
    return render.sentence(f"Released {share} after {held}.")


def _pin(arguments: Namespace) -> render.Rendering:
    lease = this_process().only_lease(_kind(arguments)).pin()
    return render.sentence(f"Pinned {share_of(lease.doc)}: it is not taken back, whether it is idle or not.")


def _unpin(arguments: Namespace) -> render.Rendering:
    lease = this_process().only_lease(_kind(arguments)).unpin()
    return render.sentence(f"Unpinned {share_of(lease.doc)}: it may be taken back for somebody who waits.")


def _why(arguments: Namespace) -> render.Rendering:
    kind, client = _kind(arguments), this_process().client
    if arguments.lease:
        return render.why([client.why(client.called(arguments.lease))])
    if this_process().held or kind is not None:
        lease = this_process().only_lease(kind)
        reason = lease.why() or lease.state.value
        return render.reason(lease.shown_doc, f"{reason.rstrip('.')} ({share_of(lease.doc)}).")
    waiting = [entry.lease_id for entry in api.pool().queue if entry.mine]
    if not waiting:
        return render.sentence("This process holds no lease, and none of your requests waits.")
    return render.why([client.why(it) for it in waiting[:_EXPLAINED]])


def _devices(_: Namespace) -> render.Rendering:
    docs = api.devices()
    return render.tables([render.devices(docs)], render.device_notes(docs))


def _usage(_: Namespace) -> render.Rendering:
    return render.usage(this_process().client.usage())


def _scale(arguments: Namespace) -> render.Rendering:
    # By its name: what nobody scales loads nothing of Dask, and the package stands above this one.
    handler: Callable[[Namespace], render.Rendering] = import_module("jupyter_gpupool.sessions.magics").scale
    return handler(arguments)


def _monitor(arguments: Namespace) -> None:
    from jupyter_gpupool.kernel.monitor import show_monitor

    show_monitor(small=arguments.small)


_COMMANDS: dict[str | None, Callable[[Namespace], Any]] = {
    None: _show_pool,
    "request": _request,
    "resize": _resize,
    "release": _release,
    "pin": _pin,
    "unpin": _unpin,
    "why": _why,
    "devices": _devices,
    "usage": _usage,
    "monitor": _monitor,
    "scale": _scale,
}
