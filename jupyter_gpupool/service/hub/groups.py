"""Which group of the quotas each user is in, as JupyterHub says: that which has the name of one of theirs.

Rules of this module: who is in a group by the file of quotas stays there, whatever the Hub says; what the Hub
said last holds, also over a restart, until it says something else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.protocol.paths import write_private
from jupyter_gpupool.service.host import PoolHost

_log = logging.getLogger(__name__)

#: In the data directory: groups of the quotas by owner, as the Hub said last.
GROUPS_FILE = "hub-groups.json"


class HubGroups:
    """The users of a Hub in groups of the quotas.

    Parameters
    ----------
    host : PoolHost
        The pool, whose rules follow.
    place : Path
        Where what the Hub said is kept.
    """

    def __init__(self, host: PoolHost, place: Path) -> None:
        self._host = host
        self._place = place
        #: As they were written by somebody, without what the Hub says.
        self._quotas: Quotas = host.config.quotas
        self._members = self._read()
        if self._members:
            host.reconfigure(self.under)

    def placed(self, quotas: Quotas) -> Quotas:
        """Take over other quotas, and put the users into their groups."""
        self._quotas = quotas
        gone = [owner for owner, group in self._members.items() if group not in quotas.by_name]
        for owner in gone:
            del self._members[owner]
        if gone:
            self._write()
        return quotas.placed(self._members)

    def said(self, owner: str, groups: Sequence[str]) -> None:
        """Take over in which groups the Hub has a user; requests after this count in the group of now."""
        if not self._quotas.groups or owner in self._quotas.group_of:
            return
        group = self._group(groups)
        if group == self._members.get(owner, ""):
            return
        if group:
            self._members[owner] = group
        else:
            del self._members[owner]
        self._host.reconfigure(self.under)
        self._write()

    def _group(self, groups: Sequence[str]) -> str:
        """Choose among a user's groups: the innermost, and of several such the first in the file."""
        known = [it.name for it in self._quotas.groups if it.name in groups]
        return max(known, key=lambda name: len(list(self._quotas.above(name))), default="")

    def under(self, config: PoolConfig) -> PoolConfig:
        """Return rules with the users in their groups."""
        return replace(config, quotas=self._quotas.placed(self._members))

    def _read(self) -> dict[str, str]:
        try:
            found = msgspec.json.decode(self._place.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("Users count in no group until they ask again: %s: %s", self._place, error)
            return {}
        return {owner: group for owner, group in found.items() if group in self._quotas.by_name}

    def _write(self) -> None:
        try:
            write_private(self._place, msgspec.json.encode(self._members))
        except OSError as error:
            _log.warning("After a restart, users count in no group until they ask again: %s", error)
