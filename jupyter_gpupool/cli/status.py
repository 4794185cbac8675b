"""The commands that look at a pool, or at a machine, and change nothing.

Rule of this module: nothing is started for them.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from traitlets import Bool, Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, COMMON_FLAGS, Command


class StatusApp(Command):
    """Show the pool: its devices, leases and queue. Starts nothing."""

    name = "jupyter-gpupool-status"
    description = __doc__
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"StatusApp": {"json": True}}, "Print the pool snapshot as JSON."),
    }
    json = Bool(False, help="Print the pool snapshot as JSON.").tag(config=True)

    def run(self) -> int:
        """Print it; the status is 1 when no pool runs."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.protocol.codec import encode

        connection = find_pool(autostart=False)
        client = PoolClient(connection)
        pool = client.pool()
        client.close()
        if self.json:
            sys.stdout.write(encode(pool).decode() + "\n")
            return 0
        from rich.console import Console

        from jupyter_gpupool.service.terminal import print_pool

        print_pool(pool, connection.url, Console())
        return 0


class WhyApp(Command):
    """Say why a request waits: who is in its way, and for how long, probably. Starts nothing."""

    name = "jupyter-gpupool-why"
    description = __doc__
    examples = """
    jupyter gpupool why                 # all requests of yours that wait
    jupyter gpupool why lease_0199…7c2e # this one; the end of its id is enough
    """
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"WhyApp": {"json": True}}, "Print the answers as JSON."),
    }
    json = Bool(False, help="Print the answers as JSON.").tag(config=True)

    def run(self) -> int:
        """Print it."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.protocol.codec import encode

        client = PoolClient(find_pool(autostart=False))
        ids = [client.called(it) for it in self.extra_args]
        ids = ids or [entry.lease_id for entry in client.queue() if entry.mine]
        found = [client.why(it) for it in ids]
        client.close()
        if self.json:
            sys.stdout.write(encode(found).decode() + "\n")
            return 0
        from rich.console import Console

        from jupyter_gpupool.service.terminal import print_why

        for why in found:
            print_why(why, Console())
        if not found:
            print("None of your requests waits.")  # noqa: T201 - this is a command
        return 0


class SelfTestApp(Command):
    """Prove on this machine what is promised of leases: exceed their limits, and see that they hold."""

    name = "jupyter-gpupool-selftest"
    description = __doc__
    examples = """
    jupyter gpupool selftest                  # the CPU and all GPUs, about 4 minutes for each GPU at most
    jupyter gpupool selftest --device cuda0   # only this one
    jupyter gpupool selftest --json           # for programs
    """
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"SelfTestApp": {"json": True}}, "Print the result as JSON."),
    }
    aliases: ClassVar[Any] = {**COMMON_ALIASES, "device": "SelfTestApp.device"}
    json = Bool(False, help="Print the result as JSON.").tag(config=True)
    device = Unicode("", help="Name or id of the only device that is tried; empty for all.").tag(config=True)

    def run(self) -> int:
        """Print a table of claims; the status is 1 when one of them failed."""
        from jupyter_gpupool.protocol.codec import encode
        from jupyter_gpupool.selftest.run import run_selftest

        result = run_selftest(self.device)
        if self.json:
            sys.stdout.write(encode(result).decode() + "\n")
            return result.status
        from rich.console import Console

        from jupyter_gpupool.selftest.report import print_report

        print_report(result, Console())
        return result.status
