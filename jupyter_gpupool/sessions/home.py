"""What a session cluster needs of the process that it belongs to.

Rule of this module: the only place of this package that touches `jupyter_gpupool.kernel.process`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from jupyter_gpupool.client.calls import Connection
from jupyter_gpupool.kernel.process import Process, label, this_process
from jupyter_gpupool.protocol.documents import DeviceDoc
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.names import ENV_LEASE


class Home:
    """One process, as the owner of a session cluster.

    Parameters
    ----------
    process : Process
        What it knows of the pool.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def here(self) -> bool:
        """False in a child that was forked from it."""
        return self._process.pid == os.getpid()

    @property
    def key(self) -> str:
        """Its identity as a holder; a kernel's token overrides it."""
        return self._process.key

    @property
    def label(self) -> str:
        """What a person knows it by."""
        return label()

    @property
    def hostname(self) -> str:
        """Where it runs."""
        return printable(socket.gethostname())

    @property
    def connection(self) -> Connection:
        """Where the pool is; it is found, and started, on first use."""
        return self._process.client.connection

    def find(self) -> Connection:
        """Find the pool anew, and start it if that may be."""
        return self._process.find()

    def devices(self) -> list[DeviceDoc]:
        """List the devices of the pool."""
        return self._process.client.devices()

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a worker: this process's, without what its own lease put there.

        The id of that lease stays: by it a child knows whose limits it has inherited.
        """
        found = dict(os.environ)
        for lease in list(self._process.held.values()):
            for name, value in lease.variables_before.items():
                if name == ENV_LEASE:
                    continue
                if value is None:
                    found.pop(name, None)
                else:
                    found[name] = value
        return found


def this_home() -> Home:
    """Return this process's."""
    return Home(this_process())
