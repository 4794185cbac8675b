"""Stopping a user's pool from the outside.

Rule of this module: leases end only when that was asked for, and a process is signalled only if it is the one
that wrote the runtime file.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.client.embedded import lives, read_runtime_file
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import RuntimeFile
from jupyter_gpupool.protocol.paths import owner_token

#: How long a service may take to end, seconds.
STOP_SECONDS = 15.0
_LOOK_SECONDS = 0.05


class NothingToStop(GPUPoolError):
    """Raised when no pool runs. Nothing needs to be done."""

    code = "nothing_to_stop"


class PoolInUse(GPUPoolError):
    """Raised when leases would be cut off. Release them, or use ``--force``."""

    code = "pool_in_use"


class DoesNotStop(GPUPoolError):
    """Raised when the service does not end in time. Its log may say why."""

    code = "does_not_stop"


def stop_pool(runtime: Path, *, force: bool) -> str:
    """Stop the pool of a runtime directory; return a sentence that says what was done.

    Raises
    ------
    NothingToStop, PoolInUse, DoesNotStop
        See there.
    """
    file = read_runtime_file(runtime)
    if file is None or not lives(file):
        raise NothingToStop(f"No pool runs in {runtime}.")
    ended = _end_leases(runtime, file, force=force)
    os.kill(file.pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while lives(file):
        if time.monotonic() > until:
            raise DoesNotStop(
                f"The pool (pid {file.pid}) has not ended within {STOP_SECONDS:.0f} s.",
                hint=f"Its log is in {runtime / 'logs'}.",
            )
        time.sleep(_LOOK_SECONDS)
    return f"The pool at {file.url} has ended" + (f", after {ended} leases." if ended else ".")


def _end_leases(runtime: Path, file: RuntimeFile, *, force: bool) -> int:
    client = PoolClient(Connection(url=file.url, token=owner_token(runtime), owner=file.owner))
    try:
        leases = client.leases()
        if leases and not force:
            raise PoolInUse(
                f"The pool at {file.url} has {len(leases)} leases.",
                hint="Release them, or end them all with `jupyter gpupool stop --force`.",
            )
        for lease in leases:
            if lease.mine:
                client.release(lease.id)
        return len(leases)
    finally:
        client.close()
