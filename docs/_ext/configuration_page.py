"""Lists every setting, from the code that reads it."""

from __future__ import annotations

from comments import read_comments, sentence

from jupyter_gpupool.cluster.settings import PoolAgent
from jupyter_gpupool.kernel.snapshots.settings import GPUPoolSnapshots
from jupyter_gpupool.protocol import names
from jupyter_gpupool.server.app import GPUPoolExtension
from jupyter_gpupool.service.settings import PoolService

#: Class -> where it is configured.
_CONFIGURABLES = {
    PoolService: "The pool service: `jupyter gpupool serve --PoolService.NAME=VALUE`, or "
    "`jupyter_gpupool_config.py`",
    PoolAgent: "The devices of a node: `jupyter gpupool serve --PoolAgent.NAME=VALUE` (or `agent`, where a "
    "service manager runs it), or `jupyter_gpupool_config.py`",
    GPUPoolExtension: "The Jupyter Server extension: `jupyter lab --GPUPoolExtension.NAME=VALUE`, or "
    "`jupyter_server_config.py`",
    GPUPoolSnapshots: "Snapshots of kernels: `ipython_kernel_config.py`",
}


def environment_table() -> str:
    """Return the environment variables."""
    lines = ["| variable | what it does |", "| --- | --- |"]
    for name, (value, comment) in read_comments(names).items():
        if name.startswith("ENV_"):
            lines.append(f"| `{value}` | {sentence(comment)} |")
    return "\n".join(lines) + "\n"


def options() -> str:
    """Return the traits of each configurable class."""
    parts = []
    for kind, where in _CONFIGURABLES.items():
        parts.append(
            f"### {kind.__name__}\n\n{where}.\n\n| name | default | what it does |\n| --- | --- | --- |"
        )
        for name, trait in sorted(kind.class_own_traits(config=True).items()):
            help_text = sentence(" ".join((trait.help or "").split()))
            parts.append(f"| `{name}` | `{trait.default_value_repr()}` | {help_text} |")
        parts.append("")
    return "\n".join(parts)
