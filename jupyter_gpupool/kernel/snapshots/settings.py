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
        "before shutdown", "off". What is not named is as it is without it; "off, before preemption" begins
        from nothing. Empty: $JUPYTER_GPUPOOL_AUTOSAVE; else every 10m, before shutdown and before preemption,
        in kernels that had a lease, a checkpoint or a restore, and in no others.""",
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

    leave_free = Float(
        0.1,
        min=0.0,
        max=0.9,
        help="""The part of the store's disk that automatic snapshots leave free: 0.1 is a tenth. Older ones
        go first; then nothing is saved by itself, and that is said. 0: they may fill it.""",
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
    leave_free : float
        The part of the store's disk that automatic ones leave free, 0 to 1.
    chosen : bool
        Whether somebody has set the policy: it holds from the start of the kernel then.
    """

    policy: Policy = DEFAULT
    store: str = ""
    keep_automatic: int = 5
    keep_seconds: float = 14 * _DAY_SECONDS
    quota_bytes: int | None = None
    leave_free: float = 0.1
    chosen: bool = False


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
        leave_free=config.leave_free,
        chosen=bool(wanted),
    )
