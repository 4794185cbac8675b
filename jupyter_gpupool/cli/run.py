"""Running a command under what a lease has on this node.

Rule of this module: the command takes this process's place, so that its signals and exit status are its own.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, ClassVar

from traitlets import Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, Command

#: Exit statuses, as shells have them: a command that is not there, or cannot be run; usage.
NOT_FOUND, NOT_RUNNABLE, USAGE = 127, 126, 2


class RunApp(Command):
    """Run a command under what a lease has on this node; of a lease on several nodes, once on each."""

    name = "jupyter-gpupool-run"
    description = __doc__
    examples = """
    jupyter gpupool run --lease lease_0199…7c2e -- python train.py   # the end of the id is enough
    jupyter gpupool run --lease …7c2e --node n2 -- python train.py   # where two agents run on a machine
    """
    aliases: ClassVar[Any] = {**COMMON_ALIASES, "lease": "RunApp.lease", "node": "RunApp.node"}
    lease = Unicode("", help="Id of the lease, or how that ends.").tag(config=True)
    node = Unicode("", help="Name or id of the node; empty for the one that this is.").tag(config=True)

    def parse_command_line(self, argv: Any = None) -> None:
        """Read the options, and leave what comes after ``--`` as it is."""
        argv = list(sys.argv[1:] if argv is None else argv)
        cut = argv.index("--") if "--" in argv else len(argv)
        self.command = argv[cut + 1 :]
        super().parse_command_line(argv[:cut])

    def run(self) -> int:
        """Join the lease, and become the command; return the exit status where that cannot be."""
        command = self.command or list(self.extra_args)
        if not command or not self.lease:
            return self._say("Say what to run: jupyter gpupool run --lease ID -- COMMAND …", USAGE)
        path = shutil.which(command[0])
        if path is None:
            return self._say(f"There is no program {command[0]} here; nothing was attached.", NOT_FOUND)
        self._join()
        return self._become(path, command)

    def _become(self, path: str, command: list[str]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execv(path, command)  # noqa: S606 - it is what the user asked for
        except OSError as error:
            return self._say(f"{path} cannot be run ({error.strerror}).", NOT_RUNNABLE)

    def _join(self) -> None:
        """Get under the limits of what the lease has here."""
        from jupyter_gpupool.backends.shed import shed_inherited_limits
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.kernel.joining import join_lease
        from jupyter_gpupool.protocol import names

        client = PoolClient(find_pool(autostart=False))
        lease_id = client.called(self.lease)
        os.environ.pop(names.ENV_REATTACH, None)
        shed_inherited_limits()
        joined = join_lease(client, lease_id, self.node)
        client.close()
        for notice in joined.notices:
            self._say(notice, 0)

    def _say(self, sentence: str, status: int) -> int:
        print(f"jupyter gpupool run: {sentence}", file=sys.stderr)  # noqa: T201 - this is a command
        return status
