"""JupyterHub and the pool: one line in ``jupyterhub_config.py``.

Rule of this package: it configures, by hooks and callables that any spawner takes; it is no spawner.

Examples
--------
>>> import jupyter_gpupool.hub
>>> jupyter_gpupool.hub.configure(c)  # doctest: +SKIP
"""

from __future__ import annotations

from jupyter_gpupool.hub.configuring import configure

__all__ = ["configure"]
