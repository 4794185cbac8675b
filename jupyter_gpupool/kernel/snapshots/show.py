"""What people see of snapshots: plain text for terminals, HTML for notebooks.

Rules of this module: the words come from `words`; a report shows its main points, and the whole of it under a
fold in a notebook, or where it is asked for.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from jupyter_gpupool.core.shares import format_memory
from jupyter_gpupool.kernel.render import Rendering, Table, sentence, tables
from jupyter_gpupool.kernel.snapshots import words

if TYPE_CHECKING:
    from jupyter_gpupool.state.looking import Difference, Inspection
    from jupyter_gpupool.state.model import Finding, Manifest, Variable

_NOTE = "color:var(--jp-content-font-color2,inherit)"
#: Order of the kinds in a whole report.
_ORDER = ("not_saved", "changed", "rebuilt", "left_out")
#: Of an id so many characters are shown: they are enough to tell one from others.
ID_CHARACTERS = 14
#: Longest text of a cell, characters.
_LONGEST = 120


def report(
    head: str, findings: Sequence[Finding], more: str, notes: Sequence[str] = (), *, whole: bool = False
) -> Rendering:
    """Show what was done, and what there is to say of it.

    Parameters
    ----------
    head : str
        What was done.
    findings : sequence of Finding
        What there is to say.
    more : str
        What shows all of it.
    notes : sequence of str
        Further sentences.
    whole : bool
        Whether to show all of it now.
    """
    first, full = sentence(head), findings_table(findings)
    if whole:
        parts = [first, tables([full] if findings else [], notes)]
        text = "\n".join(it.text for it in parts if it.text)
        return Rendering(text, _joined(it.markup for it in parts))
    lines = [*words.main_points(findings, more), *notes]
    markup = [first.markup, *(f'<div style="{_NOTE}">{html.escape(line)}</div>' for line in lines)]
    if findings:
        markup.append(f"<details><summary>Report</summary>{tables([full]).markup}</details>")
    return Rendering("\n".join([head, *(f"  {line}" for line in lines)]), _joined(markup))


def findings_table(findings: Sequence[Finding]) -> Table:
    """Show every finding."""
    rows = [
        (words.KINDS[it.kind.value][1], it.path or it.variable, it.type_name, it.reason, it.hint)
        for it in words.of_kind(findings, *_ORDER)
    ]
    return Table("Report", ("what", "where", "type", "why", "what to do"), rows, "nothing to say")


def listing(
    manifests: Sequence[Manifest],
    *,
    hidden: int = 0,
    damaged: Mapping[str, str] | None = None,
    now: float | None = None,
) -> Rendering:
    """Show snapshots, newest first; of ``hidden`` automatic ones only the number."""
    header = ("name", "when", "size", "new", "variables", "took", "notebook", "note", "id")
    rows = [
        (
            it.name or "–",
            words.when(it.created_ms, now),
            format_memory(it.total_bytes),
            format_memory(it.new_bytes),
            str(it.count),
            words.seconds(it.seconds),
            PurePath(it.notebook).name,
            it.note + (" (automatic)" if it.automatic else ""),
            it.id[:ID_CHARACTERS],
        )
        for it in manifests
    ]
    notes = [f"And {hidden} automatic ones; `%gpupool snapshots --all` shows them."] if hidden else []
    notes += [f"{why} `%gpupool forget {it}` removes it." for it, why in (damaged or {}).items()]
    return tables([Table("Snapshots", header, rows, "none; `%gpupool checkpoint` saves one")], notes)


def inside(found: Inspection, *, now: float | None = None) -> Rendering:
    """Show what is in a snapshot; nothing of it is run."""
    manifest = found.manifest
    total, new = format_memory(manifest.total_bytes), format_memory(manifest.new_bytes)
    facts = [
        ("name", manifest.name),
        ("id", manifest.id),
        ("saved", f"{words.when(manifest.created_ms, now)}, in {words.seconds(manifest.seconds)}"),
        (
            "by",
            manifest.owner + ("" if found.trusted else " (not with your key: restoring it needs --trust)"),
        ),
        ("on", manifest.hostname),
        ("notebook", manifest.notebook),
        ("note", manifest.note),
        (
            "size",
            f"{total}, {new} of it new then",
        ),
        ("Python", f"{manifest.environment.python} on {manifest.environment.platform}"),
        ("packages", ", ".join(f"{name} {it}" for name, it in sorted(manifest.environment.packages.items()))),
        ("other here", "; ".join(found.differences)),
        ("beside variables", ", ".join(found.sections)),
        ("would import", ", ".join(found.imports)),
        ("holds code of", ", ".join(found.functions)),
    ]
    about = Table("Snapshot", ("what", "is"), [(name, text) for name, text in facts if text])
    rows = [
        (it.name, it.type_name, _short(it.summary), format_memory(it.nbytes) if it.nbytes else "")
        for it in found.variables
    ]
    held = Table("Variables", ("name", "type", "what", "size"), rows, "none")
    findings = [findings_table(manifest.findings)] if manifest.findings else []
    return tables([about, held, *findings])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def difference(first: Manifest, second: Manifest, found: Difference) -> Rendering:
    """Show which variables differ, and what they are in each."""
    rows = [(it.name, "–", _what(it)) for it in found.added]
    rows += [(it.name, _what(it), "–") for it in found.removed]
    rows += [(then.name, _what(then), _what(now)) for then, now in found.changed]
    title = f"From {words.called(first)} to {words.called(second)}"
    header = ("variable", words.when(first.created_ms), words.when(second.created_ms))
    same = f"{words.counted(len(found.same), 'variable')} the same."
    return tables([Table(title, header, sorted(rows), "no variable differs")], [same])


def _what(it: Variable) -> str:
    parts = (it.type_name, _short(it.summary), format_memory(it.nbytes) if it.nbytes else "")
    return ", ".join(part for part in parts if part)


def collected(freed_bytes: int, forgotten: int, took_seconds: float, reason: str = "") -> Rendering:
    """Say what was removed from a store."""
    freed = f"Freed {format_memory(freed_bytes)}" if freed_bytes else "There was nothing to free"
    parts = [f"{freed} ({words.seconds(took_seconds)})."]
    if forgotten:
        parts.append(f"{words.counted(forgotten, 'old automatic snapshot')} went with it.")
    return sentence(" ".join([*parts, reason]).strip())


def _joined(parts: Iterable[str]) -> str:
    return f"<div>{''.join(parts)}</div>"
