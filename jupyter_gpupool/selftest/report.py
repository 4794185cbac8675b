"""The result as tables for a terminal.

Rule of this module: pure rendering; every outcome is a word, colour only repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpupool.core.shares import format_duration
from jupyter_gpupool.selftest.claims import ClaimDoc, Outcome, RungDoc, SelfTestDoc

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {Outcome.PROVED: "", Outcome.FAILED: "bold red", Outcome.NOT_POSSIBLE: "dim"}


def print_report(doc: SelfTestDoc, console: Console) -> None:
    """Print which rungs are possible, and the claims."""
    from rich.markup import escape
    from rich.table import Table

    for what, value in doc.machine.items():
        console.print(f"{what}: {value}", highlight=False, markup=False)
    if doc.rungs:
        rungs = Table(title="Mechanisms", title_justify="left", box=None, pad_edge=False)
        for column in ("device", "mechanism", "possible", "why not"):
            rungs.add_column(column, overflow="fold")
        for rung in doc.rungs:
            rungs.add_row(*map(escape, _rung(rung)))
        console.print(rungs)
    table = Table(title="Claims", title_justify="left", box=None, pad_edge=False)
    for column in ("device", "claim", "outcome", "what was seen"):
        table.add_column(column, overflow="fold")
    for claim in doc.claims:
        table.add_row(*map(escape, _claim(claim)), style=_STYLES[claim.outcome])
    console.print(table)
    console.print(summary(doc), highlight=False, markup=False)


def summary(doc: SelfTestDoc) -> str:
    """Return the result as one sentence."""
    counts = ", ".join(f"{doc.count(outcome)} {outcome.value}" for outcome in Outcome)
    return f"{len(doc.claims)} claims in {format_duration(doc.seconds)}: {counts}."


def _rung(rung: RungDoc) -> tuple[str, ...]:
    return (rung.device, rung.rung, "yes" if rung.possible else "no", rung.reason)


def _claim(claim: ClaimDoc) -> tuple[str, ...]:
    where = f"{claim.device} ({claim.sharing})" if claim.sharing else claim.device
    return (where, claim.claim, claim.outcome.value, claim.detail)
