"""The files of quotas and reservations, changed while the service runs.

Rules of this module: a text that would not be understood at the next start is not written; what is written is
in the audit log before, and in force when `save` returns; what is held stays held.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.protocol.paths import write_private
from jupyter_gpupool.service.audit import AuditLog
from jupyter_gpupool.service.auth import Principal, Scope
from jupyter_gpupool.service.host import PoolHost
from jupyter_gpupool.service.quota_config import quotas_of
from jupyter_gpupool.service.reservation_config import reservations_of

#: How much of a change the audit log has, characters.
_TOLD = 2000


class RuleKind(Enum):
    """Which file."""

    QUOTAS = "quotas"
    RESERVATIONS = "reservations"


class RulesChanged(GPUPoolError):
    """Raised when a file is another than the one that was shown. Look at it, and change it again."""

    code = "rules_changed"


class CannotWriteRules(GPUPoolError):
    """Raised when a file of rules cannot be read or written. The message says which, and why."""

    code = "cannot_write_rules"


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleText:
    """One file.

    Attributes
    ----------
    path : Path
        Where it is.
    text : str
        What is in it; empty where there is none.
    """

    path: Path
    text: str

    @property
    def seen(self) -> str:
        """Tells whether it is still the same."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class RuleFiles:
    """Reads and changes both files.

    Parameters
    ----------
    host : PoolHost
        The pool under these rules.
    audit : AuditLog
        Where changes are noted.
    paths : dict of RuleKind to Path
        The files.
    placed : callable
        Puts users into the groups of new quotas, where somebody else says who is in which.
    """

    def __init__(
        self,
        host: PoolHost,
        audit: AuditLog,
        paths: dict[RuleKind, Path],
        placed: Callable[[Quotas], Quotas] = lambda quotas: quotas,
    ) -> None:
        self._host = host
        self._audit = audit
        self._paths = paths
        self._placed = placed
        self._turn = asyncio.Lock()

    def read(self, kind: RuleKind) -> RuleText:
        """Return what is in a file now.

        Raises
        ------
        CannotWriteRules
            If it cannot be read.
        """
        path = self._paths[kind]
        try:
            return RuleText(path=path, text=path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return RuleText(path=path, text="")
        except (OSError, UnicodeDecodeError) as error:
            raise CannotWriteRules(
                f"{path} cannot be read: {error}.", hint="Mend it on its machine."
            ) from error

    async def save(self, who: Principal, kind: RuleKind, text: str, seen: str) -> None:
        """Replace a file, and have the pool under its rules.

        Parameters
        ----------
        who : Principal
            An administrator.
        kind : RuleKind
            Which file.
        text : str
            What is to be in it.
        seen : str
            `RuleText.seen` of what the administrator saw.

        Raises
        ------
        Forbidden
            If this principal does not administer the pool.
        BadQuotas, BadReservations
            If the rules would not be understood; the message says in which line.
        RulesChanged
            If somebody else has changed the file meanwhile.
        AuditUnavailable, CannotWriteRules
            If it cannot be written down; then nothing has changed.
        """
        who.require(Scope.ADMIN)
        text = text.replace("\r\n", "\n")
        async with self._turn:
            before = await asyncio.to_thread(self.read, kind)
            rules = self._understood(kind, text)
            if before.seen != seen:
                raise RulesChanged(
                    f"The {kind.value} were changed meanwhile.",
                    hint="Look at them again, and repeat your change.",
                )
            if text != before.text:
                detail = _difference(before.text, text)
                await self._audit.note(
                    who=who.owner, action="change", subject=kind.value, owner="", detail=detail
                )
                await asyncio.to_thread(_replace, before.path, text)
            await self._host.reconfigured(rules)

    def _understood(self, kind: RuleKind, text: str) -> Callable[[PoolConfig], PoolConfig]:
        """Read rules as a start of the service would, and return what makes them the pool's."""
        texts = {it: text if it is kind else self.read(it).text for it in RuleKind}
        quotas = quotas_of(texts[RuleKind.QUOTAS], "quotas")
        reservations = reservations_of(texts[RuleKind.RESERVATIONS], "reservations", quotas)

        def rules(config: PoolConfig) -> PoolConfig:
            return replace(config, quotas=self._placed(quotas), reservations=reservations)

        return rules


def _difference(before: str, after: str) -> str:
    """Write which lines go and which come."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changed = [line for line in list(lines)[2:] if not line.startswith("@@")]
    told = " | ".join(changed)
    return told if len(told) <= _TOLD else f"{told[:_TOLD]} …"


def _replace(path: Path, text: str) -> None:
    """Write a file anew, at once and whole; it stays readable for whom it was."""
    try:
        place = path.resolve()
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
        write_private(place, text.encode(), durable=True)
        place.chmod(mode)
    except OSError as error:
        raise CannotWriteRules(
            f"{path} cannot be written: {error.strerror}.",
            hint="Change it on its machine, and start the service again.",
        ) from error
