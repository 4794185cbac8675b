"""A Jupyter server for benchmarks, in a process of its own.

Rule of this module: only our extension is in it, so that nobody else's work is measured.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import urlopen

from _common import CouldNotMeasure, poll, process

TOKEN = "benchmark"  # noqa: S105 - of a server that lives for seconds, on loopback
#: Extensions of others: they only add noise.
_OTHERS = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals")


@dataclass(frozen=True)
class JupyterServer:
    """A running server.

    Attributes
    ----------
    port, pid : int
        Where it listens, and its process.
    seconds : float
        How long it took to answer.
    """

    port: int
    pid: int
    seconds: float


@contextmanager
def jupyter_server(environment: dict[str, str], *arguments: str) -> Iterator[JupyterServer]:
    """Run a Jupyter server for a while."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    others = [f"--ServerApp.jpserver_extensions={name}=False" for name in _OTHERS]
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}", *others, *arguments]
    started = time.perf_counter()
    with process(command, environment) as child:
        poll(lambda: _answers(port) or child.poll() is not None, "a running Jupyter server")
        if child.poll() is not None:
            raise CouldNotMeasure("the Jupyter server ended by itself.")
        yield JupyterServer(port, child.pid, time.perf_counter() - started)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
