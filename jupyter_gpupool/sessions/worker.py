"""The process of a worker: ``python -m jupyter_gpupool.sessions.worker``, with its order on standard input.

Rules of this module: it is under its limits before anything of the user's is imported; it ends with its
kernel, whatever either of them does at that moment; what keeps it from working is one line of its output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.codec import BadMessage, decode
from jupyter_gpupool.protocol.messages import AttachReply
from jupyter_gpupool.sessions.order import WorkerOrder

#: ``PR_SET_PDEATHSIG`` of Linux.
_SET_DEATH_SIGNAL = 1
#: How long the scheduler may take to be reached, seconds.
_JOIN_SECONDS = 60
#: How often a retiring worker looks whether its tasks have ended, seconds.
_LOOK_SECONDS = 0.05
#: Exit statuses: its order could not be carried out; its kernel is gone.
FAILED, ORPHANED = 3, 4


def main() -> int:
    """Become a worker, and be one until the scheduler or the kernel says otherwise."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return ORPHANED
    try:
        order = decode(line, WorkerOrder)
        if order.format != names.FORMAT:
            raise BadMessage(f"This worker reads orders of format {names.FORMAT}, not {order.format}.")
        _end_with(order.parent)
        sys.path += [place for place in order.path if place not in sys.path]
        reply = _attach(order)
        return asyncio.run(_serve(order, reply))
    except GPUPoolError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED


def _end_with(parent: int) -> None:
    """Have this process end at once when its kernel does."""
    if not parent:  # it is on another machine: this worker ends with its scheduler, or with its lease
        return
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before it could be noticed
            os._exit(ORPHANED)
    # The signal follows the thread that started us; the input also ends when that thread alone is gone.
    threading.Thread(target=_end_with_input, name="jupyter_gpupool kernel", daemon=True).start()


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    os._exit(ORPHANED)


def _attach(order: WorkerOrder) -> AttachReply:
    """Leave the limits of the kernel's own lease, and get under those of this worker's."""
    from jupyter_gpupool.backends.shed import shed_inherited_limits
    from jupyter_gpupool.kernel.attach import AppliedSettings, show_ticket
    from jupyter_gpupool.kernel.frameworks import installed

    os.environ.pop(names.ENV_REATTACH, None)
    shed_inherited_limits()
    frameworks = installed() if order.cuda else {}
    reply = show_ticket(order.attach, frameworks=frameworks)
    AppliedSettings().apply(reply, frameworks)
    return reply


async def _serve(order: WorkerOrder, reply: AttachReply) -> int:
    """Run the worker until it is closed."""
    import dask
    from distributed import Worker

    from jupyter_gpupool.sessions.cuda import worker_options
    from jupyter_gpupool.sessions.wire import keys_for, scheme_of

    dask.config.update(dask.config.config, dask.config.deserialize(order.config), priority="new")
    options: dict[str, Any] = worker_options(order) if order.cuda else {}
    worker = Worker(
        order.scheduler,
        name=order.name,
        nthreads=order.nthreads,
        memory_limit=order.memory_limit_bytes,
        resources=order.resources,
        security=keys_for(order.certificate, order.key),
        host=order.host or _address_towards(order.scheduler),
        protocol=scheme_of(order.scheduler),
        dashboard_address="127.0.0.1:0",
        dashboard=False,
        death_timeout=_JOIN_SECONDS,
        **options,
    )
    worker.handlers["gpupool_finish"] = _finisher(worker)
    closing: list[asyncio.Task[None]] = []
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: closing.append(asyncio.ensure_future(_close(worker)))
    )
    await worker
    for notice in reply.notices:
        sys.stderr.write(f"{notice}\n")
    await worker.finished()
    # A task that is still running in a thread must not keep a lease: what may be waited for was.
    sys.stderr.flush()
    os._exit(0)


def _address_towards(scheduler: str) -> str:
    """Return the address of this machine from which the scheduler is reached."""
    host, _, port = scheduler.rpartition("//")[2].rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting it sends nothing
        probe.connect((host.strip("[]"), int(port)))
        return str(probe.getsockname()[0])


async def _close(worker: Any) -> None:
    with contextlib.suppress(TimeoutError):
        await worker.close(timeout=1, executor_wait=False)


def _finisher(worker: Any) -> Callable[[], Any]:
    """Make the handler that answers when the tasks that run on a retiring worker have ended."""

    async def finish() -> bool:
        while worker.state.executing or worker.state.long_running:  # noqa: ASYNC110 - Dask tells nobody
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    return finish


if __name__ == "__main__":
    sys.exit(main())
