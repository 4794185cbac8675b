"""How snapshots read: sentences and cells of tables.

Rule of this module: pure; what was not saved is always said by name, with the reason and what to do; the rest
is counted, and said in full where that is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jupyter_gpupool.core.shares import format_duration, format_memory

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.policy import Policy
    from jupyter_gpupool.state.model import Finding, Manifest

#: How many findings of one kind are said in full without being asked.
SAID = 5
#: Bytes that a restore reads in a second, where nothing was measured yet.
RESTORE_BYTES_PER_SECOND = 500e6
#: A restore takes at least so long, seconds.
RESTORE_SECONDS = 0.1
_DAY_SECONDS = 86400.0

#: Kind of a finding -> how a sentence about it begins, and how several are counted.
KINDS = {
    "not_saved": ("Not saved", "not saved"),
    "changed": ("Changed", "changed"),
    "rebuilt": ("Made again", "made again"),
    "left_out": ("Left out", "left out"),
}


def seconds(value: float) -> str:
    """Write how long something took: "0.04 s", "2.3 s", "3 min"."""
    if value < 0.095:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 9.95 else format_duration(value)


def counted(count: int, what: str) -> str:
    """Write "1 variable" or "3 variables"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def when(created_ms: int, now_seconds: float | None = None) -> str:
    """Write a moment as a clock on the wall here shows it: "14:32", "Mon 14:32", "2026-11-30 14:32"."""
    now = time.time() if now_seconds is None else now_seconds
    then = time.localtime(created_ms / 1000)
    if then[:3] == time.localtime(now)[:3]:
        return time.strftime("%H:%M", then)
    if 0 <= now - created_ms / 1000 < 6 * _DAY_SECONDS:
        return time.strftime("%a %H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def called(manifest: Manifest) -> str:
    """Say which snapshot is meant."""
    return f"“{manifest.name}”" if manifest.name else f"the state of {when(manifest.created_ms)}"


def restore_seconds(total_bytes: int, rate: float = RESTORE_BYTES_PER_SECOND) -> float:
    """Estimate how long it takes to restore so many bytes."""
    return max(RESTORE_SECONDS, total_bytes / rate)


def saved(manifest: Manifest) -> str:
    """Say what was saved, in one sentence."""
    new = "nothing new" if not manifest.new_bytes else f"{format_memory(manifest.new_bytes)} new"
    took = seconds(manifest.seconds)
    held = f"{counted(manifest.count, 'variable')}, {format_memory(manifest.total_bytes)} ({new})"
    return f"Saved {called(manifest)}: {held}, {took}."


def restored(manifest: Manifest, count: int, took_seconds: float) -> str:
    """Say what was restored, in one sentence."""
    of = f" of {when(manifest.created_ms)}" if manifest.name else ""
    done = f"{counted(count, 'variable')}, {format_memory(manifest.total_bytes)}, {seconds(took_seconds)}"
    return f"Restored {called(manifest)}{of}: {done}."


def finding(found: Finding) -> str:
    """Say one finding, with the reason and what to do."""
    head, _ = KINDS[found.kind.value]
    what = found.path or found.variable
    kind = found.type_name if not what else f" ({found.type_name})" if found.type_name else ""
    reason = f": {found.reason.rstrip('.')}." if found.reason else "."
    return f"{head}: {what}{kind}{reason}" + (f" {found.hint}" if found.hint else "")


def of_kind(findings: Iterable[Finding], *kinds: str) -> list[Finding]:
    """Return the findings of some kinds, in their order."""
    found = list(findings)
    return [it for kind in kinds for it in found if it.kind.value == kind]


def main_points(findings: Sequence[Finding], more: str) -> list[str]:
    """Say what a person must know: what is lost, or has another meaning; count the rest.

    Parameters
    ----------
    findings : sequence of Finding
        All there are.
    more : str
        What shows them all, as the next step.
    """
    lines: list[str] = []
    counts: list[str] = []
    for kind in ("not_saved", "changed"):
        found = of_kind(findings, kind)
        lines += [finding(it) for it in found[:SAID]]
        if len(found) > SAID:
            counts.append(f"{len(found) - SAID} more {KINDS[kind][1]}")
    secrets = [it.path or it.variable for it in of_kind(findings, "left_out") if _secret(it)]
    if secrets:
        lines.append(f"Left out, because the names look like secrets: {_listed(secrets, SAID)}.")
    rest = [it for it in of_kind(findings, "left_out") if not _secret(it)]
    counts += [
        f"{len(found)} {KINDS[kind][1]}"
        for kind, found in (("rebuilt", of_kind(findings, "rebuilt")), ("left_out", rest))
        if found
    ]
    if counts:
        lines.append(f"Also {', '.join(counts)}; {more} says which.")
    return lines


def again(findings: Iterable[Finding]) -> list[str]:
    """Say how a variable that did not come back can be made again, where there is one."""
    names = [it.variable for it in of_kind(findings, "not_saved") if it.path == it.variable]
    plain = next((name for name in names if name.isidentifier()), "")
    return [f"`%gpupool rerun {plain}` runs the cell again that made it, if you want that."] if plain else []


def names_changed(removed: Sequence[str], kept: Sequence[str], *, whole: bool = False) -> list[str]:
    """Say which names a restore took away, and which it had no value for."""
    found = (
        ("Removed, because made since: ", removed),
        ("Kept as they are, because the snapshot has no value for them: ", kept),
    )
    return [f"{head}{_listed(names, len(names) if whole else 2 * SAID)}." for head, names in found if names]


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _secret(found: Finding) -> bool:
    return "secret" in found.reason


def first_autosave(manifest: Manifest, policy: Policy, where: str) -> str:
    """Say that a state was saved without being asked for, and how to end that."""
    return (
        f"The state of this kernel was saved by itself ({format_memory(manifest.total_bytes)} in {where}, "
        f"readable by you only), and will be again: {str(policy).partition(';')[0]}. Kernels that use the "
        f"pool or snapshots do that. `%gpupool autosave off` ends it here, and "
        f'`c.GPUPoolSnapshots.autosave = "off"` in ipython_kernel_config.py everywhere. This is said once.'
    )


def offer(name: str, created_ms: int, total_bytes: int, took_seconds: float, now: float | None = None) -> str:
    """Offer to restore what a kernel left behind."""
    about = format_duration(max(1.0, took_seconds))
    return (
        f"The kernel that this notebook had before is gone. `%gpupool restore {name}` brings back its state "
        f"of {when(created_ms, now)} ({format_memory(total_bytes)}, about {about})."
    )
