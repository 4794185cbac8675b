"""What is said after a checkpoint or a restore.

Rules of this module: every finding is told; a report is plain values, and looks the same as text and as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jupyter_gpupool.state.model import Finding, FindingKind

_HEADINGS = {
    FindingKind.NOT_SAVED: "Not saved, or not made again",
    FindingKind.REBUILT: "Rebuilt",
    FindingKind.CHANGED: "Came back changed",
    FindingKind.LEFT_OUT: "Left out",
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint or a restore did.

    Attributes
    ----------
    action : str
        "checkpoint" or "restore".
    snapshot, name : str
        Id and name of the snapshot.
    names : list of str
        Variables that were saved, or that were restored: as they are called now.
    removed : list of str
        Names that were made since, and are gone with the restore.
    kept : list of str
        Names whose value was not in the snapshot, and that keep what they had.
    findings : list of Finding
        What there is to say of single values.
    warnings : list of str
        What there is to say of all: other versions of packages, sections of the process.
    total_bytes, new_bytes : int
        Bytes of all that the snapshot holds, and those that were written.
    seconds : float
        How long it took.
    """

    action: str
    snapshot: str = ""
    name: str = ""
    names: list[str] = []
    removed: list[str] = []
    kept: list[str] = []
    findings: list[Finding] = []
    warnings: list[str] = []
    total_bytes: int = 0
    new_bytes: int = 0
    seconds: float = 0.0

    @property
    def lost(self) -> list[str]:
        """Variables of which something is not there, each once."""
        return list(dict.fromkeys(f.variable for f in self.findings if f.kind is FindingKind.NOT_SAVED))

    def text(self) -> str:
        """Return the report for people, one line for each thing."""
        return "\n".join(self._lines())

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain values, for JSON and for tables."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain

    def __str__(self) -> str:
        return self.text()

    def _lines(self) -> Iterator[str]:
        done = "Saved" if self.action == "checkpoint" else "Restored"
        what = f" {'as' if self.action == 'checkpoint' else 'from'} {self.name or self.snapshot}"
        yield f"{done} {_count(len(self.names), 'variable')}{what} in {self.seconds:.2f} s ({self._sizes()})."
        for kind, heading in _HEADINGS.items():
            found = [finding for finding in self.findings if finding.kind is kind]
            if found:
                yield f"{heading}:"
                yield from (f"  {line(finding)}" for finding in found)
        if self.kept:
            yield f"Kept as they are, because the snapshot has no value for them: {', '.join(self.kept)}."
        if self.removed:
            yield f"Removed, because they were made after the snapshot: {', '.join(self.removed)}."
        yield from self.warnings

    def _sizes(self) -> str:
        total = _bytes(self.total_bytes)
        return f"{total}, {_bytes(self.new_bytes)} new" if self.action == "checkpoint" else total


def line(finding: Finding) -> str:
    """Return a finding as one line."""
    end = f" {finding.hint}" if finding.hint else ""
    return f"{finding.path} ({finding.type_name}): {finding.reason}.{end}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
