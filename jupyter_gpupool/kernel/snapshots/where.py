"""What is known of the place that is saved: its notebook, its kernel, its machine.

Rule of this module: facts of this process only, read when they are asked for: a notebook tells its path late.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.tokens import read_claim

#: In the data directory: what kernels left behind.
LEFT_FOLDER = "left"
#: How the names of snapshots begin that kernels take along to another node, before the kernel's id.
MOVE_PREFIX = "move-"
_CONNECTION = re.compile(r"kernel-(.+)\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Where a state is from.

    Attributes
    ----------
    notebook : str
        Path of the notebook; empty when there is none.
    kernel_id : str
        Id of the kernel, as its server knows it; empty outside one.
    hostname : str
        The machine.
    """

    notebook: str
    kernel_id: str
    hostname: str


def where(shell: Any | None) -> Where:
    """Say where this process is."""
    return Where(notebook=notebook(shell), kernel_id=kernel_id(shell), hostname=socket.gethostname())


def notebook(shell: Any | None) -> str:
    """Return the path of this process's notebook; empty when it has none."""
    if session := os.environ.get("JPY_SESSION_NAME"):
        return session
    return str(getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__", ""))


def left_file(path: str) -> Path:
    """Return the file that says what a notebook's kernel left behind, whether it is there or not."""
    import hashlib

    from jupyter_gpupool.protocol.paths import data_dir

    return data_dir() / LEFT_FOLDER / f"{hashlib.sha256(path.encode()).hexdigest()[:32]}.json"


def kernel_id(shell: Any | None) -> str:
    """Return the id of this process's kernel, as its server knows it; empty outside one."""
    claim = read_claim(os.environ.get(names.ENV_TOKEN, ""))
    if claim is not None:
        return claim.kernel_id
    match = _CONNECTION.fullmatch(Path(connection_file(shell)).name)
    return match[1] if match else ""


def connection_file(shell: Any | None) -> str:
    """Return the file by which clients find this process's kernel, as its server named it; empty outside one.

    It is the same over restarts.
    """
    config = getattr(getattr(shell, "kernel", None), "config", {})
    return str(config.get("IPKernelApp", {}).get("connection_file", "") if config else "")
