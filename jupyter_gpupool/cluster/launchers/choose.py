"""Which launcher a node has, as its administrator decided.

Rule of this module: a launcher that cannot work is told when the agent starts, not when somebody waits.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.backends.rules import LauncherKind, NodeRules
from jupyter_gpupool.cluster.launchers.accounts import Accounts
from jupyter_gpupool.cluster.launchers.base import Launcher
from jupyter_gpupool.cluster.launchers.environment import ALLOWED
from jupyter_gpupool.cluster.launchers.other_users import SetuidLauncher, SudoLauncher, SystemdRunLauncher
from jupyter_gpupool.cluster.launchers.same_user import SameUserLauncher
from jupyter_gpupool.protocol import names, paths

_OTHERS = {
    LauncherKind.SETUID: SetuidLauncher,
    LauncherKind.SUDO: SudoLauncher,
    LauncherKind.SYSTEMD_RUN: SystemdRunLauncher,
}


def make_launcher(rules: NodeRules, directory: Path, *, node: str, joined: bool) -> Launcher:
    """Make the launcher of a node, and find out whether it works.

    Parameters
    ----------
    rules : NodeRules
        What the administrator decided.
    directory : Path
        A private directory, for outputs; made if it is missing.
    node : str
        Name of the node, for people.
    joined : bool
        True on a node of another machine's pool.

    Raises
    ------
    LauncherUnusable
        If it does not.
    """
    accounts = Accounts(dict(rules.accounts), node=node)
    patterns = (*ALLOWED, *rules.launch_environment)
    launcher: Launcher
    if rules.launcher is LauncherKind.SAME_USER:
        launcher = SameUserLauncher(directory, accounts=accounts, node=node, patterns=patterns, joined=joined)
    else:
        launcher = _OTHERS[rules.launcher](directory, accounts=accounts, node=node, patterns=patterns)
    launcher.check()
    return launcher


def accounts_at_the_socket(rules: NodeRules, *, node: str) -> Accounts | None:
    """Return by what holders are admitted that show a ticket; None for the agent's own user only."""
    if rules.launcher is LauncherKind.SAME_USER:
        return None
    return Accounts(dict(rules.accounts), node=node)


def socket_place(rules: NodeRules, runtime: Path) -> Path:
    """Return where holders show their tickets: in private, unless they run as several users.

    Raises
    ------
    UnsafeDirectory
        If others can change what is there.
    """
    if not rules.socket_directory:
        return paths.socket_path(runtime)
    return paths.public_directory(Path(rules.socket_directory)) / names.AGENT_SOCKET
