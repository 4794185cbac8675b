"""Fractions of the machine's accelerators, leased to notebooks.

Rule of this module: it names things and imports nothing. Every public name is resolved on first use
(PEP 562), so that ``import jupyter_gpupool`` costs what an empty package costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.api import connect, current, devices, pool, request
    from jupyter_gpupool.kernel.joining import join
    from jupyter_gpupool.kernel.lease import Lease
    from jupyter_gpupool.kernel.monitor import monitor
    from jupyter_gpupool.kernel.panel import panel
    from jupyter_gpupool.kernel.snapshots.api import (
        autosave,
        checkpoint,
        diff,
        forget,
        rerun,
        restore,
        snapshots,
    )
    from jupyter_gpupool.sessions.api import scale
    from jupyter_gpupool.sessions.cluster import GPUPoolCluster

__all__ = [
    "GPUPoolCluster",
    "Lease",
    "__version__",
    "autosave",
    "checkpoint",
    "connect",
    "current",
    "devices",
    "diff",
    "forget",
    "join",
    "monitor",
    "panel",
    "pool",
    "request",
    "rerun",
    "restore",
    "scale",
    "snapshots",
    "state",
    "why",
]

#: Public name -> the module that defines it.
_PUBLIC = {
    "Lease": "jupyter_gpupool.kernel.lease",
    **dict.fromkeys(
        ("autosave", "checkpoint", "diff", "forget", "rerun", "restore", "snapshots"),
        "jupyter_gpupool.kernel.snapshots.api",
    ),
    "monitor": "jupyter_gpupool.kernel.monitor",
    "panel": "jupyter_gpupool.kernel.panel",
    "connect": "jupyter_gpupool.kernel.api",
    "current": "jupyter_gpupool.kernel.api",
    "devices": "jupyter_gpupool.kernel.api",
    "join": "jupyter_gpupool.kernel.joining",
    "pool": "jupyter_gpupool.kernel.api",
    "request": "jupyter_gpupool.kernel.api",
    "why": "jupyter_gpupool.kernel.api",
    "GPUPoolCluster": "jupyter_gpupool.sessions.cluster",
    "scale": "jupyter_gpupool.sessions.api",
}


def __getattr__(name: str) -> Any:
    """Resolve a public name on first use."""
    if name == "__version__":
        from jupyter_gpupool._version import version

        return version()
    if name == "state":
        from importlib import import_module

        return import_module("jupyter_gpupool.state")
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tell JupyterLab where the built front end lies (for development installs)."""
    return [{"src": "labextension", "dest": "jupyter-gpupool"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Tell Jupyter Server which extension application to load."""
    from jupyter_gpupool.server.app import GPUPoolExtension

    return [{"module": "jupyter_gpupool", "app": GPUPoolExtension}]


def load_ipython_extension(ipython: Any) -> None:
    """Register ``%gpupool`` (called by ``%load_ext`` and by ``--ext=jupyter_gpupool``)."""
    from jupyter_gpupool.kernel.extension import load

    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take ``%gpupool`` away again (called by ``%unload_ext``)."""
    from jupyter_gpupool.kernel.extension import unload

    unload(ipython)
