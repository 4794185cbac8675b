"""Opens JupyterLab as a person does, with `make lab`, and looks whether the pool is there.

Rule of this module: every wait ends, and whatever was started is ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

#: Longest wait for JupyterLab with a connected pool, seconds.
_READY_SECONDS = 120.0
_TOKEN = "continuous-integration"


@contextmanager
def _lab(root: Path, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `make lab` in a process group of its own."""
    command = ["make", "lab", f"ARGS=--no-browser --IdentityProvider.token={_TOKEN}"]
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield child
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)


def _pool_of(runtime: Path) -> dict[str, object] | None:
    """Ask the server that wrote its address to ``runtime`` for the pool; None while there is none."""
    for file in runtime.glob("jpserver-*.json"):
        try:
            base = json.loads(file.read_text())["url"]
            with urlopen(f"{base}jupyter_gpupool/api/v1/pool?token={_TOKEN}", timeout=10) as answer:
                pool: dict[str, object] = json.load(answer)
                return pool
        except (URLError, OSError, ValueError):
            return None
    return None


def lab_answers(root: Path, scratch: Path) -> None:
    """Raise unless `make lab` brings up JupyterLab with the embedded pool and its device."""
    runtime = scratch / "jupyter-runtime"
    environment = dict(os.environ) | {"JUPYTER_RUNTIME_DIR": str(runtime)}
    for name in ("RUNTIME", "DATA", "LOCK"):
        environment[f"JUPYTER_GPUPOOL_{name}_DIR"] = str(scratch / f"lab-{name.lower()}")
    log = scratch / "lab.log"
    pool = None
    with _lab(root, environment, log) as child:
        deadline = time.monotonic() + _READY_SECONDS
        while not (pool and pool["devices"]) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            pool = _pool_of(runtime)
    stop = [str(root / ".venv" / "bin" / "jupyter-gpupool"), "stop", "--force"]
    subprocess.run(stop, env=environment, timeout=60, check=False)
    if not (pool and pool["devices"]):
        raise RuntimeError(f"no pool with a device within {_READY_SECONDS:.0f} s:\n{log.read_text()[-4000:]}")
