"""What the checks look at.

Rule of this module: everything about the machine, the installation and the pool that a check may know is in
one frozen value; only `gather` looks at the real ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import msgspec

from jupyter_gpupool._version import version
from jupyter_gpupool.client.discovery import find_pool
from jupyter_gpupool.client.sync import PoolClient
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.protocol.documents import HealthDoc, NodeDoc
from jupyter_gpupool.protocol.paths import data_dir, lock_dir, runtime_dir


class Verdict(Enum):
    """How a check came out."""

    #: Nothing is wrong.
    FINE = "fine"
    #: It works, but less well than it could, or not for everybody.
    MIND = "mind"
    #: Something will not work until it is mended.
    WRONG = "wrong"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found: its state in one sentence, and the next step where there is one."""

    check: str
    verdict: Verdict
    state: str
    mend: str = ""


def found_by(check: str, verdict: Verdict, state: str, mend: str = "") -> Finding:
    """Make a finding."""
    return Finding(check=check, verdict=verdict, state=state, mend=mend)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """One machine, one installation and one pool, as a check sees them.

    Attributes
    ----------
    root : Path
        What takes the place of "/".
    environment : mapping
        Environment variables.
    uid : int
        The user.
    runtime, data, locks : Path
        Our directories.
    configs : sequence of Path
        Where Jupyter looks for configuration, the strongest first.
    shares : sequence of Path
        Where it looks for kernels and extensions of JupyterLab.
    version : str
        Ours.
    interpreter : str
        The Python that Jupyter puts in the place of “python” in a kernel's command.
    wall_seconds : float
        Now: seconds since the epoch.
    port : int
        On which the service is to listen; 0 for any.
    health : HealthDoc or None
        What the pool says; None where none answers.
    nodes : sequence of NodeDoc
        Its nodes.
    unreachable : str
        Why no pool answers, in words.
    skew_seconds : float or None
        How far the pool's clock is ahead of ours; None where nobody can tell.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=dict)
    uid: int = 0
    runtime: Path = Path("/nowhere/run")
    data: Path = Path("/nowhere/data")
    locks: Path = Path("/nowhere/lock")
    configs: Sequence[Path] = ()
    shares: Sequence[Path] = ()
    version: str = ""
    interpreter: str = ""
    wall_seconds: float = 0.0
    port: int = 0
    health: HealthDoc | None = None
    nodes: Sequence[NodeDoc] = ()
    unreachable: str = ""
    skew_seconds: float | None = None

    def text(self, path: str) -> str:
        """Read a file of the machine; empty where it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text("utf-8", "replace")
        except OSError:
            return ""


def gather(port: int = 0) -> Scene:
    """Look at the real machine, and ask the pool if there is one; starts nothing."""
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    health, nodes, unreachable, skew = _pool()
    return Scene(
        environment=dict(os.environ),
        uid=os.getuid() if hasattr(os, "getuid") else 0,
        runtime=runtime_dir(),
        data=data_dir(),
        locks=lock_dir(),
        configs=[Path(it) for it in jupyter_config_path()],
        shares=[Path(it) for it in jupyter_path()],
        version=version(),
        interpreter=sys.executable,
        wall_seconds=time.time(),
        port=port,
        health=health,
        nodes=nodes,
        unreachable=unreachable,
        skew_seconds=skew,
    )


def _pool() -> tuple[HealthDoc | None, list[NodeDoc], str, float | None]:
    """Ask the pool that a notebook of this user would find."""
    if sys.platform != "linux":
        return None, [], "the pool and its agents run on Linux", None
    try:
        client = PoolClient(find_pool(autostart=False))
        try:
            return client.health(), client.nodes(), "", client.skew_seconds()
        finally:
            client.close()
    except GPUPoolError as error:
        return None, [], str(error), None
