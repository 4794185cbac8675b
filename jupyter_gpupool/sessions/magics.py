"""What ``%gpupool scale`` does.

Rule of this module: as in `jupyter_gpupool.kernel.magics`, one call of the Python API and one rendering.
"""

from __future__ import annotations

from argparse import Namespace

from jupyter_gpupool.kernel.render import Rendering
from jupyter_gpupool.sessions import api
from jupyter_gpupool.sessions.words import show


def scale(arguments: Namespace) -> Rendering:
    """Run ``%gpupool scale``."""
    cluster = api.scale(
        arguments.words[0],
        share=arguments.share,
        protocol=arguments.protocol,
        memory=arguments.memory,
        kind=arguments.kind,
        device=arguments.device,
        cpus=arguments.cpus,
        host_memory=arguments.host_memory,
        model=arguments.model,
        priority=arguments.priority,
    )
    return show(cluster)
