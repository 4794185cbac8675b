"""The Hub's proxy in front of a JupyterLab: https outside, plain http behind it.

Rule of this module: what it starts, it ends; its certificate is its own, and browsers are told to take it.
"""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from jupyter_gpupool.cluster.certificates import key_pem, make_authority, new_key, pem, sign
from tests.browser.lab import end, free_port, wait_for
from tests.support.hub_process import proxy_command


class Proxy:
    """One proxy; a context manager that ends it.

    Parameters
    ----------
    folder : Path
        Where its certificate and its log go.
    port : int
        Where the server behind it listens.
    environment : mapping
        Where its interpreter is found.
    """

    def __init__(self, folder: Path, port: int, environment: dict[str, str]) -> None:
        self._log = folder / "proxy.log"
        self._environment = environment
        key, certificate = new_key(), folder / "proxy.pem"
        signed = sign(make_authority("proxy", 1), "proxy", key.public_key(), days=1, hosts=["127.0.0.1"])
        certificate.write_bytes(pem(signed) + key_pem(key))
        self._port, api = free_port(), free_port()
        self.origin = f"https://127.0.0.1:{self._port}"
        self._command = [
            proxy_command(),
            "--ip=127.0.0.1",
            f"--port={self._port}",
            f"--ssl-key={certificate}",
            f"--ssl-cert={certificate}",
            "--api-ip=127.0.0.1",
            f"--api-port={api}",
            f"--default-target=http://127.0.0.1:{port}",
        ]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for(self._listens, "the proxy listens", log=self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end(self._process)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=5):
            return True
        return False
