"""Starting processes as the owner's account.

Rules of this module: the account comes from `Accounts` and from nowhere else; all that an owner chooses
(paths, variables, arguments) travels through standard input to ``enter.py``, which is that account already
when it looks at it; the words that start it are the agent's own, always the same, so that a sudoers file can
name them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jupyter_gpupool.cluster.launchers import enter, spawn
from jupyter_gpupool.cluster.launchers.accounts import Account, Accounts
from jupyter_gpupool.cluster.launchers.base import Keep, Launched, LaunchRecord, LaunchSpec
from jupyter_gpupool.cluster.launchers.environment import ALLOWED, allowed
from jupyter_gpupool.cluster.launchers.errors import LauncherUnusable
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.limits import printable
from jupyter_gpupool.protocol.paths import private_directory

logger = logging.getLogger(__name__)

#: Says that systemd runs this machine.
SYSTEMD = Path("/run/systemd/system")
#: How long sending a signal through sudo may take, seconds.
SIGNAL_SECONDS = 10.0


class SetuidLauncher:
    """Starts processes as any account, by itself: the agent runs as root.

    Parameters
    ----------
    directory : Path
        A private directory, for outputs; made if it is missing.
    accounts : Accounts
        Which account an owner has.
    node : str
        Name of this node, for people.
    patterns : sequence of str
        Variables that processes may be given.
    programs : str
        Where sudo and systemd-run are looked for, as ``PATH`` has it.
    systemd : Path
        What is there where systemd runs the machine.
    """

    name = "setuid"

    def __init__(
        self,
        directory: Path,
        *,
        accounts: Accounts,
        node: str,
        patterns: Sequence[str] = ALLOWED,
        programs: str = spawn.DEFAULT_PATH,
        systemd: Path = SYSTEMD,
    ) -> None:
        self._directory = private_directory(directory, variable=names.ENV_RUNTIME_DIR)
        self._accounts = accounts
        self._node = node
        self._patterns = patterns
        self._programs = programs
        self._systemd = systemd

    def check(self) -> None:
        """Find out whether this process may become other users."""
        if os.geteuid() != 0:
            raise LauncherUnusable(
                f"Node {self._node} cannot start processes by “{self.name}”: its agent does not run as root.",
                hint="Run it as root, or set PoolAgent.launcher to sudo.",
            )

    def account(self, owner: str) -> str:
        """Return the name of an owner's account."""
        return self._accounts.find(owner).name

    async def launch(self, spec: LaunchSpec, keep: Keep | None = None) -> Launched:
        """Start a process as its owner's account."""
        self.check()
        way = self._way(self._accounts.find(spec.owner))
        permitted = replace(spec, owner=printable(spec.owner), env=allowed(spec.env, self._patterns))
        return await spawn.launch(permitted, way, self._directory, self._node, keep)

    async def adopt(self, record: LaunchRecord) -> Launched | None:
        """Take over a process of an earlier agent."""
        way = self._way(self._accounts.find(record.owner))
        return spawn.adopt(record, self._directory, way.send)

    def _way(self, account: Account) -> spawn.Way:
        return spawn.Way(account=account, drop=True)


class SystemdRunLauncher(SetuidLauncher):
    """Starts processes as transient units of systemd, one each: the agent runs as root."""

    name = "systemd-run"

    def check(self) -> None:
        """Find out whether systemd runs this machine."""
        super().check()
        if not self._systemd.is_dir() or self._program() is None:
            raise LauncherUnusable(
                f"Node {self._node} cannot start processes by “systemd-run”: systemd does not run it.",
                hint="Set PoolAgent.launcher to setuid or sudo.",
            )

    def _way(self, account: Account) -> spawn.Way:
        program = self._program() or "systemd-run"
        unit = f"gpupool-{account.uid}-{uuid.uuid4().hex[:12]}"
        options = ("--quiet", "--collect", "--wait", "--pipe", "--service-type=exec", f"--unit={unit}")
        return spawn.Way(account=account, prefix=(program, *options, f"--uid={account.name}", "--"))

    def _program(self) -> str | None:
        return shutil.which("systemd-run", path=self._programs)


class SudoLauncher(SetuidLauncher):
    """Starts processes by sudo: the agent runs as a user who may do that, and no more."""

    name = "sudo"

    def check(self) -> None:
        """Find out whether there is a sudo."""
        if self._program() is None:
            raise LauncherUnusable(
                f"Node {self._node} cannot start processes by “sudo”: there is no sudo on it.",
                hint="Install it, or set PoolAgent.launcher to setuid and run the agent as root.",
            )

    def _way(self, account: Account) -> spawn.Way:
        prefix = (self._program() or "sudo", "-n", "-u", account.name, "--")

        async def send(group: int, number: int) -> None:
            await asyncio.to_thread(_signal_through, prefix, account, group, number)

        return spawn.Way(account=account, prefix=prefix, send=send)

    def _program(self) -> str | None:
        return shutil.which("sudo", path=self._programs)


def _signal_through(prefix: Sequence[str], account: Account, group: int, number: int) -> None:
    """Have an account signal a group of its own."""
    order = {"uid": account.uid, "gid": account.gid, "drop": False, "group": group, "signal": number}
    try:
        done = subprocess.run(  # noqa: S603 - the same words as for a launch
            [*prefix, *spawn.ENTER],
            input=enter.written(order),
            capture_output=True,
            cwd="/",
            env=spawn.ENVIRONMENT,
            timeout=SIGNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("Process group %s of %s could not be signalled: %s", group, account.name, error)
        return
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip()
        logger.warning("Process group %s of %s could not be signalled: %s", group, account.name, text)
