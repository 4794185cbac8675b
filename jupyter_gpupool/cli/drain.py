"""``jupyter gpupool drain`` and ``undrain``: taking a node out of service, and back in.

Rule of this module: nothing is started for them; the pool decides who may.
"""

from __future__ import annotations

from typing import Any, ClassVar

from traitlets import Bool, Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, COMMON_FLAGS, Command
from jupyter_gpupool.core.errors import InvalidValue


class DrainApp(Command):
    """Take no new leases on a node, for administrators. Leases that are there stay, or end after a grace."""

    name = "jupyter-gpupool-drain"
    description = __doc__
    examples = """
    jupyter gpupool drain node-7                                   # what is there may stay
    jupyter gpupool drain node-7 --grace 30m --message "New driver at noon."
    jupyter gpupool drain node-7 --now                             # end what is there at once
    """
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "now": ({"DrainApp": {"now": True}}, "End the leases that are there at once."),
    }
    aliases: ClassVar[Any] = {**COMMON_ALIASES, "grace": "DrainApp.grace", "message": "DrainApp.message"}
    grace = Unicode("", help="End the leases that are there after so long (30m); empty for never.").tag(
        config=True
    )
    message = Unicode("", help="Why, for those who hold something there.").tag(config=True)
    now = Bool(False, help="End the leases that are there at once.").tag(config=True)

    def run(self) -> int:
        """Ask the pool, and say what is so then."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.core.shares import parse_duration

        node = _one_node(self.extra_args, "drain")
        grace = parse_duration(self.grace) if self.grace else None
        client = PoolClient(find_pool(autostart=False))
        try:
            doc = client.drain(node, message=self.message, grace_seconds=0.0 if self.now else grace)
        finally:
            client.close()
        from jupyter_gpupool.service.terminal import node_sentence

        print(node_sentence(doc))  # noqa: T201 - this is a command
        return 0


class UndrainApp(Command):
    """Take leases on a node again, for administrators."""

    name = "jupyter-gpupool-undrain"
    description = __doc__
    examples = "    jupyter gpupool undrain node-7"

    def run(self) -> int:
        """Ask the pool, and say what is so then."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient

        node = _one_node(self.extra_args, "undrain")
        client = PoolClient(find_pool(autostart=False))
        try:
            doc = client.undrain(node)
        finally:
            client.close()
        from jupyter_gpupool.service.terminal import node_sentence

        print(node_sentence(doc))  # noqa: T201 - this is a command
        return 0


def _one_node(arguments: list[str], command: str) -> str:
    if len(arguments) != 1:
        raise InvalidValue(
            "Which node?",
            hint=f"Write “jupyter gpupool {command} NAME”; `jupyter gpupool status` lists the nodes.",
        )
    return arguments[0]
