"""A real Jupyter server as a child process, for tests.

Rules of this module: every wait is bounded; what was started is ended by the pid that was noted.
"""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tornado.testing import bind_unused_port

from tests.support.pool_process import PATIENCE_SECONDS, Answer, wait_for

TOKEN = "token-of-the-server"
API = "jupyter_gpupool/api/v1"

#: Configuration of the server: it writes down, as it ends, which modules it had imported.
_CONFIG = """
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path({modules!r}).write_text(json.dumps(sorted(sys.modules))))
"""


class ServerProcess:
    """One Jupyter server with our extension.

    Parameters
    ----------
    folder : Path
        Where its configuration, runtime files and notebooks go.
    environment : mapping of str to str
        Its environment, and its kernels'.
    arguments : tuple of str
        Further arguments of ``jupyter server``.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], arguments: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.modules_file = folder / "modules.json"
        config = folder / "config"
        config.mkdir(parents=True)
        (config / "jupyter_server_config.py").write_text(_CONFIG.format(modules=str(self.modules_file)))
        self._environment = {
            **environment,
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
        }
        socket, self.port = bind_unused_port("127.0.0.1")
        socket.close()
        self._arguments = arguments
        self._log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> ServerProcess:
        """Start the server, and wait until it answers."""
        command = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
            *("--ServerApp.jpserver_extensions={'jupyter_gpupool': True, 'jupyterlab': False}",),
            *(
                f"--port={self.port}",
                "--port-retries=0",
                "--ip=127.0.0.1",
                f"--ServerApp.root_dir={self.folder}",
            ),
            *(f"--IdentityProvider.token={TOKEN}", *self._arguments),
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, "the Jupyter server to answer")
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended:\n{self.log()}"
        return self.ask("GET", "api/status").status == 200

    def log(self) -> str:
        """Return what the server has logged."""
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """End the server as a service manager does; return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """Kill the server without warning."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def cleanup(self) -> None:
        """End the server if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()

    def modules(self) -> set[str]:
        """Which modules the server had imported when it ended."""
        return set(json.loads(self.modules_file.read_text()))

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request; status 0 when nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            data=data,
            method=method,
            headers={"Authorization": f"token {TOKEN}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                return Answer(answer.status, answer.headers, _json(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, _json(error.read()))
        except OSError as error:
            return Answer(0, {}, str(error))

    def start_kernel(self, name: str = "python3") -> str:
        """Start a kernel; return its id."""
        answer = self.ask("POST", "api/kernels", {"name": name})
        assert answer.status == 201, answer
        return str(answer.body["id"])

    def run(self, kernel_id: str, code: str, show: str = "None") -> Any:
        """Run a cell, which must not fail, and return what the expression ``show`` is after it.

        The value comes with the answer itself: what is printed may be lost while a client still subscribes.
        """
        from jupyter_client.blocking import BlockingKernelClient

        client = BlockingKernelClient(
            connection_file=str(self.folder / "runtime" / f"kernel-{kernel_id}.json")
        )
        client.load_connection_file()
        client.start_channels(hb=False)
        try:
            reply = client.execute(
                code, user_expressions={"it": show}, reply=True, timeout=2 * PATIENCE_SECONDS
            )
        finally:
            client.stop_channels()
        assert reply["content"]["status"] == "ok", reply["content"]
        return ast.literal_eval(reply["content"]["user_expressions"]["it"]["data"]["text/plain"])

    def wait_connected(self) -> Any:
        """Wait until the server shows the pool; return the snapshot."""

        def connected() -> Any:
            answer = self.ask("GET", f"{API}/pool")
            return answer.body if answer.status == 200 and answer.body["devices"] else None

        return wait_for(connected, f"the server to show the pool; its log:\n{self.log()[-2000:]}", 60.0)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")
