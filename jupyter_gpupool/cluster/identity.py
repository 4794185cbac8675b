"""Who a node is.

Rule of this module: an id is stable, and is not the secret machine id itself.
"""

from __future__ import annotations

import hashlib

from jupyter_gpupool.protocol import paths


def node_id(name: str = "") -> str:
    """Return this machine's id in pools.

    Parameters
    ----------
    name : str
        What an administrator calls the node, where the machine id is not enough to tell it from others: in
        containers, and on machines that were cloned.
    """
    text = f"jupyter_gpupool node {paths.machine_id()} {name}".rstrip()
    return f"node-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
