"""What all commands have in common.

Rule of this module: a command returns its exit status; its errors are one sentence with the next step.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, ClassVar

from jupyter_core.application import JupyterApp, base_aliases, base_flags
from traitlets import TraitError

from jupyter_gpupool._version import version
from jupyter_gpupool.core.errors import GPUPoolError

#: Options that every command has.
COMMON_FLAGS = {key: base_flags[key] for key in ("debug", "show-config", "show-config-json")}
COMMON_ALIASES = {key: base_aliases[key] for key in ("log-level", "config")}
#: What is decided about a node's devices, where the agent is started by hand or by a service.
AGENT_ALIASES = {
    "emulate": "PoolService.emulate",
    "sharing": "PoolAgent.default_sharing",
    "sharing-file": "PoolAgent.sharing_file",
    "require-isolation": "PoolAgent.require_isolation",
    "unmanaged": "PoolAgent.unmanaged",
    "over-limit": "PoolAgent.over_limit",
}


class Command(JupyterApp):  # type: ignore[misc]
    """Base of all commands."""

    version = version()
    config_file_name = "jupyter_gpupool_config"
    aliases: ClassVar[Any] = COMMON_ALIASES
    flags: ClassVar[Any] = COMMON_FLAGS

    def migrate_config(self) -> None:
        """Leave what IPython 3 left behind alone."""

    def start(self) -> None:
        """Run the command, and exit with its status; an error of ours is one sentence."""
        super().start()
        try:
            status = self.run()
        except GPUPoolError as error:
            print(f"jupyter gpupool: {error}", file=sys.stderr)  # noqa: T201 - this is a command
            status = 1
        except TraitError as error:
            print(f"jupyter gpupool: {error} See “jupyter gpupool config”.", file=sys.stderr)  # noqa: T201
            status = 1
        except (KeyboardInterrupt, BrokenPipeError):
            status = 130
        sys.exit(status)

    def run(self) -> int:
        """Do what the command is for, and return the exit status."""
        self.print_help()
        return 0

    def log_to_stderr(self, how: str = "text") -> None:
        """Show what our modules log, with the time: as text, or as JSON."""
        from jupyter_gpupool.service.logs import LogFormat, settle

        handler = logging.StreamHandler(sys.stderr)
        settle(handler, LogFormat(how))
        logging.basicConfig(level=self.log_level, handlers=[handler])
        if how == LogFormat.JSON.value:
            for own in self.log.handlers:
                settle(own, LogFormat.JSON)
        logging.getLogger("jupyter_gpupool").setLevel(self.log_level)
