"""Which account of a node an owner's processes run as.

Rules of this module: an administrator's mapping and the node's own list of accounts decide, and nothing that
an owner says; a system account is nobody's, whatever the mapping says; a refusal says why, and who can
change it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpupool.cluster.launchers.errors import AccountRefused
from jupyter_gpupool.protocol.limits import printable

if TYPE_CHECKING:
    import pwd

#: The first uid of a person, as on most systems; below are those of the system.
FIRST_UID = 1000
#: “nobody”, and what stands for no uid at all.
NOBODYS = frozenset({65534, 65535, 2**32 - 2, 2**32 - 1})
#: Shells of accounts that nobody shall use; an empty one stands for /bin/sh.
NO_SHELLS = frozenset({"nologin", "false", "sync", "shutdown", "halt"})
#: In a mapping: every owner who is not named.
EVERYBODY = "*"


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """An OS user.

    Attributes
    ----------
    name, uid, gid
        As the system knows it.
    groups : tuple of int
        All groups that it is in.
    home, shell : str
        Empty where it has none.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = field(default=())
    home: str = ""
    shell: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say who it is."""
        who = {"USER": self.name, "LOGNAME": self.name, "SHELL": self.shell or "/bin/sh"}
        runtime = runtime_directory(self.uid)
        return who | {"HOME": self.home or "/"} | ({"XDG_RUNTIME_DIR": runtime} if runtime else {})


def runtime_directory(uid: int, base: Path = Path("/run/user")) -> str:
    """Return an account's own runtime directory; empty when there is none, or it is not plainly its own."""
    path = base / str(uid)
    try:
        status = path.lstat()
    except OSError:
        return ""
    private = (
        stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not stat.S_IMODE(status.st_mode) & 0o077
    )
    return str(path) if private else ""


def own_account() -> Account:
    """Return the account of this process."""
    import pwd

    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:  # in a container
        return Account(name=f"uid-{uid}", uid=uid, gid=os.getegid(), groups=tuple(os.getgroups()))


class Accounts:
    """The mapping of one node.

    Parameters
    ----------
    mapping : mapping
        Account by owner, as the administrator wrote it; ``*`` is everybody who is not named, and an empty
        account refuses. Owners who are in no way mentioned have the account of their own name.
    node : str
        Name of the node, for people.
    """

    def __init__(self, mapping: Mapping[str, str], *, node: str) -> None:
        self._mapping = dict(mapping)
        self._node = node

    def name_for(self, owner: str) -> str:
        """Return the name of an owner's account, whether or not it exists; empty when refused."""
        return self._mapping.get(owner, self._mapping.get(EVERYBODY, owner))

    def names(self, owner: str) -> bool:
        """Tell whether the administrator wrote this owner down."""
        return owner in self._mapping

    def find(self, owner: str) -> Account:
        """Return the account of an owner.

        Raises
        ------
        AccountRefused
            If there is none that processes may be started as.
        """
        import pwd

        name = self.name_for(owner)
        if not name:
            raise self.refused(owner, "its administrator admits no processes of theirs")
        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise self.refused(owner, f"there is no account {printable(name)}") from None
        if entry.pw_uid < FIRST_UID or entry.pw_uid in NOBODYS:
            raise self.refused(owner, f"{name} (uid {entry.pw_uid}) is an account of the system")
        shell = entry.pw_shell.rpartition("/")[2]
        if shell in NO_SHELLS and not self.names(owner):
            raise self.refused(owner, f"{name} is not an account to log in to ({entry.pw_shell})")
        return _account(entry)

    def refused(self, owner: str, why: str) -> AccountRefused:
        """Make the refusal."""
        return AccountRefused(
            f"Node {self._node} starts no processes for {printable(owner)}: {why}.",
            hint="The node's administrator can change it (PoolAgent.accounts, PoolAgent.launcher).",
        )


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell,
    )
