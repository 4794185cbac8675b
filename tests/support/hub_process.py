"""A real JupyterHub as a child process, with its proxy, real accounts, and their real servers.

Rules of this module: every wait is bounded; what was started is ended by the pid that was noted; accounts are
removed with whatever of them still runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from tornado.testing import bind_unused_port

from jupyter_gpupool.protocol import names
from tests.support.accounts import account, see_that_it_can_run, unique
from tests.support.pool_process import Answer, wait_for

#: Long enough for a server to start on a busy machine, seconds.
PATIENCE_SECONDS = 90.0
#: Token of the service by which tests administer the Hub.
ADMIN = "a" * 32
#: Where `make environment` puts the proxy.
_PROXY = Path(sys.prefix) / "chp/node_modules/.bin/configurable-http-proxy"

_CONFIG = """
import json, sys
import jupyter_gpupool.hub
c = get_config()
told = json.loads({told!r})
c.JupyterHub.bind_url = told["bind_url"]
c.JupyterHub.hub_port = told["hub_port"]
c.JupyterHub.db_url = "sqlite:///" + told["folder"] + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = told["folder"] + "/cookie"
c.JupyterHub.log_level = "INFO"
c.ConfigurableHTTPProxy.command = [told["proxy"]]
c.ConfigurableHTTPProxy.api_url = told["proxy_api"]
c.ConfigurableHTTPProxy.pid_file = told["folder"] + "/proxy.pid"
c.JupyterHub.cleanup_servers = told["cleanup"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.environment = told["environment"]
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.JupyterHub.services = [{{"name": "tester", "api_token": told["admin"]}}]
c.JupyterHub.load_roles = [
    {{
        "name": "tester",
        "scopes": ["admin:users", "admin:servers", "tokens", "access:services", "access:servers", "proxy"],
        "services": ["tester"],
    }}
]
{more}
jupyter_gpupool.hub.configure(c, **told["configure"])
"""


def proxy_command() -> str:
    """Return the Hub's proxy; skip the test where there is none, unless one was promised."""
    if _PROXY.exists() and shutil.which("node", path=_path()):
        return str(_PROXY)
    found = shutil.which("configurable-http-proxy")
    if found:
        return found
    reason = (
        "there is no configurable-http-proxy: `make environment` installs it where npm and a registry are"
    )
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _free_port() -> int:
    door, port = bind_unused_port("127.0.0.1")
    door.close()
    return port


class HubProcess:
    """One Hub, its proxy and its pool.

    Parameters
    ----------
    folder : Path
        A directory that other accounts may enter.
    configure : mapping
        Arguments of `jupyter_gpupool.hub.configure`.
    more : str
        Further lines of the Hub's configuration, before ours.
    """

    def __init__(self, folder: Path, configure: Mapping[str, Any], more: str = "") -> None:
        self.folder = folder
        self._private = folder / "hub"
        self._private.mkdir(mode=0o700)
        self.pool_port, port, hub_port, proxy_port = (_free_port() for _ in range(4))
        self.url = f"http://127.0.0.1:{port}"
        self.pool_url = f"http://127.0.0.1:{self.pool_port}"
        self.runtime = self._private / "run"
        environment = {
            "PATH": _path(),
            "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
            "JUPYTERHUB_ACTIVITY_INTERVAL": "1",
        }
        if os.environ.get("PYTHONPATH"):
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        told = {
            "bind_url": self.url,
            "hub_port": hub_port,
            "proxy": proxy_command(),
            "proxy_api": f"http://127.0.0.1:{proxy_port}",
            "folder": str(self._private),
            "environment": environment,
            "cleanup": False,
            "admin": ADMIN,
            "configure": {"port": self.pool_port, **configure},
        }
        (self._private / "jupyterhub_config.py").write_text(_CONFIG.format(told=json.dumps(told), more=more))
        self.environment = {
            **os.environ,
            **environment,
            names.ENV_RUNTIME_DIR: str(self.runtime),
            names.ENV_DATA_DIR: str(self._private / "data"),
            names.ENV_LOCK_DIR: str(self._private / "lock"),
            "CONFIGPROXY_AUTH_TOKEN": "c" * 32,
        }
        self._log = self._private / "hub.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.http = urllib3.PoolManager(retries=False)

    def start(self) -> HubProcess:
        """Start the Hub, and wait until it and its pool answer."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(self._private / "jupyterhub_config.py")],
                env=self.environment,
                cwd=self._private,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, f"the Hub to answer; its log:\n{self.log()[-3000:]}", PATIENCE_SECONDS)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the Hub ended:\n{self.log()[-6000:]}"
        up = self.ask("GET", "/hub/api/users").status == 200
        return up and self.pool("GET", "/health", token="").status == 200

    def log(self) -> str:
        """Return what the Hub, and the pool that it started, have logged."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """Kill the Hub alone, without warning: its proxy, its pool and its servers live on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def cleanup(self) -> None:
        """End the Hub, its pool and its proxy."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.http.clear()
        if self.process is not None:  # what the Hub started is in its session, or was noted
            for pid in session_of(self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for file in (
            self._private / "proxy.pid",
            self.runtime / names.POOL_FILE,
            self.runtime / names.AGENT_LOCK,
        ):
            end_by_file(file)

    # --- talking to it --------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: object = None, *, token: str = ADMIN, **headers: str
    ) -> Answer:
        """Send one request to the Hub's proxy; status 0 when nobody answers."""
        return self._send(self.url + path, method, body, token, headers)

    def pool(self, method: str, path: str, body: object = None, *, token: str, **headers: str) -> Answer:
        """Send one request to the pool."""
        return self._send(self.pool_url + path, method, body, token, headers)

    def _send(self, url: str, method: str, body: object, token: str, headers: Mapping[str, str]) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"token {token}"
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            answer = self.http.request(
                method, url, body=data, headers=sent, timeout=PATIENCE_SECONDS, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            return Answer(0, {}, str(error))
        try:
            content = json.loads(answer.data) if answer.data else None
        except ValueError:
            content = answer.data.decode(errors="replace")
        return Answer(answer.status, answer.headers, content)

    def add_user(self, name: str) -> str:
        """Add a user, and return a token with everything that they may do."""
        assert self.ask("POST", f"/hub/api/users/{name}").status == 201
        answer = self.ask("POST", f"/hub/api/users/{name}/tokens", {"note": "test"})
        assert answer.status == 201, answer
        return str(answer.body["token"])

    def token(self, name: str, *scopes: str, expires_in: int | None = None) -> str:
        """Make another token of a user's, with these scopes only."""
        body = {"scopes": list(scopes), "expires_in": expires_in}
        answer = self.ask("POST", f"/hub/api/users/{name}/tokens", body)
        assert answer.status == 201, answer
        return str(answer.body["token"])

    def spawn(self, name: str, options: object = None) -> Any:
        """Start a user's server, and wait until it is ready."""
        answer = self.ask("POST", f"/hub/api/users/{name}/server", options or {})
        assert answer.status in (201, 202), f"{answer}\n{self.log()[-4000:]}"
        wait_for(lambda: self._ready(name), f"{name}'s server", PATIENCE_SECONDS)

    def _ready(self, name: str) -> bool:
        servers = self.ask("GET", f"/hub/api/users/{name}").body["servers"]
        return bool(servers.get("", {}).get("ready"))

    def stop_server(self, name: str) -> None:
        """Stop a user's server."""
        answer = self.ask("DELETE", f"/hub/api/users/{name}/server")
        assert answer.status in (202, 204), answer

    def start_kernel(self, name: str, token: str) -> str:
        """Start a kernel in a user's server; return its id."""
        answer = self.ask("POST", f"/user/{name}/api/kernels", {"name": "python3"}, token=token)
        assert answer.status == 201, answer
        return str(answer.body["id"])

    def run(self, name: str, token: str, kernel_id: str, code: str, show: str = "None") -> str:
        """Run a cell over the proxy, which must not fail, and return the text of the expression ``show``."""
        import asyncio

        return asyncio.run(self._run(f"/user/{name}/api/kernels/{kernel_id}/channels", token, code, show))

    async def _run(self, path: str, token: str, code: str, show: str) -> str:
        import asyncio

        from tornado.httpclient import HTTPRequest
        from tornado.websocket import websocket_connect

        url = self.url.replace("http", "ws", 1) + path
        socket = await websocket_connect(HTTPRequest(url, headers={"Authorization": f"token {token}"}))
        asked = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        await socket.write_message(
            json.dumps(
                {
                    "header": {
                        "msg_id": asked,
                        "msg_type": "execute_request",
                        "session": "s",
                        "username": "",
                        "version": "5.3",
                        "date": "2026-01-01T00:00:00Z",
                    },
                    "parent_header": {},
                    "metadata": {},
                    "channel": "shell",
                    "content": {**content, "user_expressions": {"it": show}, "stop_on_error": True},
                }
            )
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (text := await socket.read_message()) is not None:
                    message = json.loads(text)
                    if (
                        message["parent_header"].get("msg_id") == asked
                        and message["msg_type"] == "execute_reply"
                    ):
                        assert message["content"]["status"] == "ok", message["content"]
                        return str(message["content"]["user_expressions"]["it"]["data"]["text/plain"])
        finally:
            socket.close()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await socket.read_message() is not None:
                    pass
        raise AssertionError("the kernel's socket was closed")


def session_of(leader: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == leader:
                    found.append(int(entry.name))
    return found


def end_by_file(file: Path) -> None:
    """End the process whose pid a file of ours holds."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        text = file.read_text()
        told = json.loads(text)
        pid = told if isinstance(told, int) else told["pid"]
        os.kill(pid, signal.SIGKILL)


def end_all_of(uid: int) -> None:
    """End whatever an account runs, and wait until it is gone."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        left = [int(it.name) for it in Path("/proc").iterdir() if it.name.isdigit() and _is_of(it, uid)]
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _is_of(entry: Path, uid: int) -> bool:
    try:
        return entry.stat().st_uid == uid and b") Z" not in (entry / "stat").read_bytes()
    except OSError:
        return False


@contextmanager
def person(stem: str, folder: Path) -> Iterator[str]:
    """Make an account with a home for as long as a test lasts; skip where that cannot be."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("needs root, to make accounts")
    home = folder / stem
    with account(unique(stem), "-d", str(home), "-s", "/bin/sh") as entry:
        try:
            home.mkdir(mode=0o700)
            os.chown(home, entry.pw_uid, entry.pw_gid)
            see_that_it_can_run(entry.pw_uid, entry.pw_gid, "import jupyter_gpupool, jupyterhub")
            yield entry.pw_name
        finally:
            end_all_of(entry.pw_uid)


@contextmanager
def running_hub(
    people: int = 2, *, more: str = "", **configure: Any
) -> Iterator[tuple[HubProcess, list[str]]]:
    """Run a Hub with its pool, and accounts for people, for the length of a ``with`` block."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="jgp-hub-", ignore_cleanup_errors=True))
        )
        folder.chmod(0o755)
        proxy_command()
        made = [stack.enter_context(person(stem, folder)) for stem in ("ann", "bob", "cat")[:people]]
        configure.setdefault("arguments", [])
        configure["arguments"] = [
            *("--PoolAgent.launcher=setuid", f"--PoolAgent.socket_directory={folder / 'socket'}"),
            *configure["arguments"],
        ]
        hub = HubProcess(folder, configure, more)
        stack.callback(hub.cleanup)
        yield hub.start(), made
