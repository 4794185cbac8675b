"""Showing what would have to move for requests to fit.

Rule of this module: nothing is started for it, and nothing is moved.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from traitlets import Bool

from jupyter_gpupool.cli.base import COMMON_FLAGS, Command


class ProposalsApp(Command):
    """Show which few leases would have to move for requests to fit; for administrators. Moves nobody."""

    name = "jupyter-gpupool-proposals"
    description = __doc__
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"ProposalsApp": {"json": True}}, "Print the proposals as JSON."),
    }
    json = Bool(False, help="Print the proposals as JSON.").tag(config=True)

    def run(self) -> int:
        """Print it."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.protocol.codec import encode

        client = PoolClient(find_pool(autostart=False))
        found = client.proposals()
        client.close()
        if self.json:
            sys.stdout.write(encode(found).decode() + "\n")
            return 0
        from rich.console import Console

        from jupyter_gpupool.service.terminal import print_proposals

        print_proposals(found, Console())
        return 0
