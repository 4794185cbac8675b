"""A real ``jupyter lab`` for tests: own folders, own configuration, own pool.

Rule of this module: what it starts, it ends, the detached pool included.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_gpupool.protocol import names

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
_TOKEN = "token-for-tests"
#: What would make screenshots and element counts differ from run to run.
_QUIET = {
    "page_config": {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}},
    "default_setting_overrides": {
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
        "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    },
}


class Lab:
    """One server; a context manager that ends it.

    Parameters
    ----------
    folder : Path
        Where its files go.
    environment : mapping
        The isolated world of the test.
    base : str
        The path below which it serves everything, as it stands in addresses.
    application : str
        The module that is run: "notebook" is another user interface of the same parts.
    """

    def __init__(
        self, folder: Path, environment: dict[str, str], *, base: str = "/", application: str = "jupyterlab"
    ) -> None:
        self.base = base
        self._application = application
        self.root = folder / "notebooks"
        self._log = folder / "lab.log"
        config = folder / "jupyter"
        self._settings = config / "labconfig"
        self._settings.mkdir(parents=True)
        for name, value in _QUIET.items():
            (self._settings / f"{name}.json").write_text(json.dumps(value))
        self.environment = environment | {
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_DATA_DIR": str(config / "data"),
            "JUPYTER_RUNTIME_DIR": str(config / "runtime"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]]),
        }
        shutil.copytree(EXAMPLES, self.root)
        self.port = free_port()
        #: Where a browser finds it.
        self.origin = self._own_origin = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        options = [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.root}",
            f"--ServerApp.base_url={self.base}",
            f"--IdentityProvider.token={_TOKEN}",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.expose_app_in_browser=True",
            "--JupyterNotebookApp.expose_app_in_browser=True",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._application, *options],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for(lambda: self.get("api/status"), "JupyterLab answers", log=self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end(self._process)
        subprocess.run(
            [sys.executable, "-m", "jupyter_gpupool", "stop", "--force"],
            env=self.environment,
            capture_output=True,
            timeout=30,
            check=False,
        )

    def prefer(self, settings: dict[str, dict[str, object]]) -> None:
        """Give it other settings to begin with, by plugin; before it is started."""
        chosen = {**_QUIET["default_setting_overrides"], **settings}
        (self._settings / "default_setting_overrides.json").write_text(json.dumps(chosen))

    def add_notebook(self, name: str, *, kernel: str = "python3") -> None:
        """Write a notebook with one empty cell."""
        cell = {
            "cell_type": "code",
            "id": "a",
            "source": [],
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
        document = {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        (self.root / name).write_text(json.dumps(document))

    def url(self, path: str) -> str:
        """Return the address of a page for a browser, with the token."""
        return self._address(self.origin, path)

    def _address(self, origin: str, path: str) -> str:
        return f"{origin}{self.base}{path}{'&' if '?' in path else '?'}token={_TOKEN}"

    def get(self, path: str) -> Any:
        """Read a REST path; None when it does not answer."""
        address = self._address(self._own_origin, path)
        with suppress(OSError), urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310
            return json.load(answer)
        return None

    def pool(self) -> dict[str, Any]:
        """Read the pool snapshot through the server extension; empty while there is none."""
        return self.get("jupyter_gpupool/api/v1/pool") or {}

    def kernel_ids(self) -> dict[str, str]:
        """Return the kernel of each running notebook, by path."""
        return {session["path"]: session["kernel"]["id"] for session in self.get("api/sessions") or []}

    def kill_pool(self) -> None:
        """Kill the pool service, as a machine short of memory would."""
        runtime = Path(self.environment[names.ENV_RUNTIME_DIR])
        os.kill(json.loads((runtime / names.POOL_FILE).read_text())["pid"], signal.SIGKILL)

    def shut_down(self, notebook: str) -> None:
        """Shut a notebook's kernel down, as the Running panel does."""
        kernel_id = self.kernel_ids()[notebook]
        address = self._address(self._own_origin, f"api/kernels/{kernel_id}")
        request = urllib.request.Request(address, method="DELETE")  # noqa: S310
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310
            pass

    def shut_down_all(self) -> None:
        """Shut the kernels of all notebooks down."""
        for notebook in self.kernel_ids():
            self.shut_down(notebook)


def free_port() -> int:
    """Find a port of this machine's own that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, by force if need be."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)


def wait_for(
    condition: Callable[[], Any], what: str, *, seconds: float = 30.0, log: Path | None = None
) -> Any:
    """Look until ``condition()`` is true and return its value; fail with ``what`` when it is not in time."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (value := condition()):
        if time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-4000:] if log else ""
            raise AssertionError(f"not within {seconds:g} s: {what}\n{tail}")
        pause.wait(0.05)
    return value
