"""What can be wrong with a journal, each with its next step."""

from __future__ import annotations

from jupyter_gpupool.core.errors import GPUPoolError


class JournalError(GPUPoolError):
    """Branch of the errors that concern the journal."""

    code = "journal_error"


class JournalCorrupt(JournalError):
    """Raised when the file is damaged. Restore a backup, or move it aside to begin with an empty one."""

    code = "journal_corrupt"


class JournalTooNew(JournalError):
    """Raised when a newer version wrote the file. Install that version again."""

    code = "journal_too_new"


class JournalInUse(JournalError):
    """Raised when another pool service has the file open. Stop that one, or name another data directory."""

    code = "journal_in_use"


class NetworkFilesystem(JournalError):
    """Raised when the file would lie on a network filesystem. Name a local data directory."""

    code = "network_filesystem"


class JournalUnavailable(JournalError):
    """Raised when the file cannot be read or written now. See to the disk; nothing was granted meanwhile."""

    code = "journal_unavailable"
