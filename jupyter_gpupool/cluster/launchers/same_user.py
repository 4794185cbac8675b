"""Starting processes as the agent's own user.

Rule of this module: that user's own owner has processes here, and nobody else: whatever runs as the agent's
user can do all that the agent can.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jupyter_gpupool.cluster.launchers import spawn
from jupyter_gpupool.cluster.launchers.accounts import FIRST_UID, Accounts, own_account
from jupyter_gpupool.cluster.launchers.base import Keep, Launched, LaunchRecord, LaunchSpec
from jupyter_gpupool.cluster.launchers.environment import ALLOWED, allowed
from jupyter_gpupool.cluster.launchers.errors import LauncherUnusable
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.paths import private_directory


class SameUserLauncher:
    """Starts processes as the user of this process.

    Parameters
    ----------
    directory : Path
        A private directory, for outputs; made if it is missing.
    accounts : Accounts
        The mapping: an owner has processes here if it gives the agent's account.
    node : str
        Name of this node, for people.
    patterns : sequence of str
        Variables that processes may be given.
    joined : bool
        True on a node of another machine's pool: whoever is called like a system account there is not this
        one's, unless the administrator said so by name.
    """

    name = "same-user"

    def __init__(
        self,
        directory: Path,
        *,
        accounts: Accounts,
        node: str,
        patterns: Sequence[str] = ALLOWED,
        joined: bool = False,
    ) -> None:
        self._directory = directory
        self._accounts = accounts
        self._node = node
        self._patterns = patterns
        self._joined = joined
        self._own = own_account()
        private_directory(directory, variable=names.ENV_RUNTIME_DIR)

    def check(self) -> None:
        """Find out whether there is an interpreter that can be started."""
        if not os.access(sys.executable, os.X_OK):
            raise LauncherUnusable(f"{sys.executable or 'The Python of the agent'} cannot be started.")

    def account(self, owner: str) -> str:
        """Return the agent's account, for its own owner."""
        name = self._accounts.name_for(owner)
        if name != self._own.name:
            raise self._accounts.refused(
                owner,
                f"its agent starts processes as its own user only, {self._own.name} (launcher same-user)",
            )
        if self._joined and self._own.uid < FIRST_UID and not self._accounts.names(owner):
            raise self._accounts.refused(owner, f"{name} (uid {self._own.uid}) is an account of the system")
        return self._own.name

    async def launch(self, spec: LaunchSpec, keep: Keep | None = None) -> Launched:
        """Start a process."""
        self.account(spec.owner)
        permitted = replace(spec, owner=printable(spec.owner), env=allowed(spec.env, self._patterns))
        way = spawn.Way(account=self._own)
        return await spawn.launch(permitted, way, self._directory, self._node, keep)

    async def adopt(self, record: LaunchRecord) -> Launched | None:
        """Take over a process of an earlier agent."""
        return spawn.adopt(record, self._directory)
