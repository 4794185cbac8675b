"""What can be configured of snapshots.

Rule of this module: read once; IPython's configuration comes before the environment, which a Jupyter server
or an administrator sets, and both before what is built in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from traitlets import Float, Int, Unicode
from traitlets.config import Configurable

from jupyter_gpupool.kernel.snapshots.policy import DEFAULT, Policy, parse
from jupyter_gpupool.protocol import names

_DAY_SECONDS = 86400.0


class GPUPoolSnapshots(Configurable):
    """Snapshots of kernels, in ``ipython_kernel_config.py``."""

    autosave = Unicode(
        "",
        help="""When the state is saved by itself, as `%gpupool autosave` takes it: "every 10m, after 30s",
        "before shutdown", "off". Empty: $JUPYTER_GPUPOOL_AUTOSAVE, else before preemption only.""",
    ).tag(config=True)

    store = Unicode(
        "",
        help="""Where snapshots are kept: an address that fsspec knows, such as s3://bucket/path. Empty:
        $JUPYTER_GPUPOOL_STORE, else this user's data directory.""",
    ).tag(config=True)

    keep_automatic = Int(
        5, min=1, help="How many automatic snapshots of each notebook are kept; the oldest go first."
    ).tag(config=True)

    keep_days = Float(
        14.0, min=0.0, help="How old automatic snapshots may become, days; the newest one is always kept."
    ).tag(config=True)

    at_most_gib = Float(
        0.0,
        min=0.0,
        help="""How much all snapshots of yours in one store may take, GiB: automatic ones make room first,
        and a checkpoint that does not fit is refused. 0: as much as there is room.""",
    ).tag(config=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What holds for this kernel.

    Attributes
    ----------
    policy : Policy
        When the state is saved by itself.
    store : str
        Where snapshots are kept; empty for the data directory.
    keep_automatic : int
        How many automatic ones of each notebook.
    keep_seconds : float
        How old those may become.
    quota_bytes : int or None
        How much all may take.
    """

    policy: Policy = DEFAULT
    store: str = ""
    keep_automatic: int = 5
    keep_seconds: float = 14 * _DAY_SECONDS
    quota_bytes: int | None = None


def read(shell: Any | None) -> Settings:
    """Read the settings of this process.

    Raises
    ------
    InvalidValue
        If the policy cannot be understood.
    """
    config = GPUPoolSnapshots(parent=shell) if shell is not None else GPUPoolSnapshots()
    wanted = config.autosave or os.environ.get(names.ENV_AUTOSAVE, "")
    return Settings(
        policy=parse([wanted], DEFAULT) if wanted else DEFAULT,
        store=config.store or os.environ.get(names.ENV_STORE, ""),
        keep_automatic=config.keep_automatic,
        keep_seconds=config.keep_days * _DAY_SECONDS,
        quota_bytes=round(config.at_most_gib * 2**30) or None,
    )
