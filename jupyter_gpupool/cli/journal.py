"""``jupyter gpupool journal``: back the journal up, and restore it.

Rule of this module: a backup may be made at any time; a restore only while no service runs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from traitlets import Unicode

from jupyter_gpupool.cli.base import AGENT_ALIASES, COMMON_ALIASES, Command
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.service.settings import PoolService


class _OfJournal(Command):
    """Base of the commands about the journal of this user's pool on this machine."""

    classes: ClassVar[Any] = [PoolService]
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        "journal": "_OfJournal.journal",
        "emulate": AGENT_ALIASES["emulate"],
    }
    journal = Unicode("", help="The journal; empty for that of this user's pool.").tag(config=True)

    @property
    def path(self) -> Path:
        """Where the journal is."""
        if self.journal:
            return Path(self.journal).expanduser()
        return PoolService(parent=self).settings().journal

    def file(self) -> Path:
        """Return the file that was named.

        Raises
        ------
        InvalidValue
            If there is not one.
        """
        if len(self.extra_args) != 1:
            raise InvalidValue("Name one file.", hint="See --help.")
        return Path(self.extra_args[0]).expanduser().absolute()


class BackupApp(_OfJournal):
    """Write the journal as it is now into a file, also while the pool runs."""

    name = "jupyter-gpupool-journal-backup"
    description = __doc__
    examples = "jupyter gpupool journal backup /backup/gpupool-$(date +%F).sqlite3"

    def run(self) -> int:
        """Make it."""
        from jupyter_gpupool.cluster.journal_backup import back_up

        target = self.file()
        size = back_up(self.path, target)
        print(f"{target} has the journal {self.path} as it is now ({format_memory(size)}).")  # noqa: T201
        return 0


class RestoreApp(_OfJournal):
    """Put a backup in the place of the journal; the pool must not run. The present one is kept beside it."""

    name = "jupyter-gpupool-journal-restore"
    description = __doc__
    examples = "jupyter gpupool stop; jupyter gpupool journal restore /backup/gpupool-2026-12-01.sqlite3"

    def run(self) -> int:
        """Restore it."""
        from jupyter_gpupool.cluster.journal_backup import restore

        kept = restore(self.file(), self.path, suffix=f".before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        where = f" What was there is {kept} now." if kept else ""
        print(f"{self.path} is restored; the next pool goes on from it.{where}")  # noqa: T201
        return 0


class JournalApp(Command):
    """Back the pool's journal up, and restore it."""

    name = "jupyter-gpupool-journal"
    description = __doc__
    subcommands: ClassVar[Any] = {
        "backup": (BackupApp, "Write the journal into a file, also while the pool runs."),
        "restore": (RestoreApp, "Put a backup in the place of the journal."),
    }
