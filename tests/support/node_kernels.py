"""Kernels that a real Jupyter server starts on the nodes of their leases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jupyter_gpupool
from tests.support.pool_process import Answer
from tests.support.server_process import ServerProcess

ROOT = Path(jupyter_gpupool.__file__).parents[1]
PROVISIONER = {"provisioner_name": "gpupool-node-provisioner"}


def add_kernelspec(server: ServerProcess, name: str, *, encrypted: bool = True, **fields: Any) -> None:
    """Give a server a kernelspec whose kernels run with a share, and can speak in secret or not."""
    write_kernelspec(server.folder / "data", name, encrypted=encrypted, **fields)


def write_kernelspec(data: Path, name: str, *, encrypted: bool = True, **fields: Any) -> None:
    """Write such a kernelspec into Jupyter's data directory."""
    gpupool = fields.pop("gpupool", {"share": 0.25})
    spec = {
        "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "env": {"PYTHONPATH": str(ROOT)},
        "metadata": {
            **({"supported_encryption": ["curve"]} if encrypted else {}),
            "kernel_provisioner": PROVISIONER,
            "gpupool": gpupool,
        },
        **fields,
    }
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))


def start_session(server: ServerProcess, name: str, path: str = "") -> Answer:
    """Start a kernel as JupyterLab does, which names the notebook's file twice."""
    path = path or f"{name}.ipynb"
    return server.ask(
        "POST",
        "api/sessions",
        {"path": path, "type": "notebook", "name": Path(path).name, "kernel": {"name": name}},
    )


@contextmanager
def speaking_to(server: ServerProcess, kernel_id: str) -> Iterator[Any]:
    """Give a client of a kernel, for what is to happen while a cell runs."""
    from jupyter_client.blocking import BlockingKernelClient

    client = BlockingKernelClient(connection_file=str(server.folder / "runtime" / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels(hb=False)
    try:
        yield client
    finally:
        client.stop_channels()


def connection_of(server: ServerProcess, kernel_id: str) -> Mapping[str, Any]:
    """Read where a kernel listens, from the server's connection file; empty while that is written anew."""
    path = server.folder / "runtime" / f"kernel-{kernel_id}.json"
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found
