"""What people see: plain text for terminals, HTML for notebooks.

Rules of this module: the words come from `words`; what comes from elsewhere is escaped; colours only by
``--jp-*`` variables with fallbacks that work on dark and light ground.
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_gpupool.core.leases import LeaseState, Resource
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_duration, format_memory
from jupyter_gpupool.kernel.words import in_force, lease_facts, limits, notes_of, share_of, spread, state_of
from jupyter_gpupool.protocol.documents import (
    BlockerDoc,
    DeviceDoc,
    LeaseDoc,
    PoolDoc,
    ProcessDoc,
    QuotaDoc,
    UsageDoc,
    WhyDoc,
)

#: Width of plain text tables, characters.
_WIDTH = 110
#: Table cells shorter than this are not broken, characters.
_SHORT = 30
_TABLE = "border-collapse:collapse;margin:4px 0 10px 0;color:var(--jp-content-font-color1,inherit)"
_CELL = (
    "border-bottom:1px solid var(--jp-border-color2,rgba(128,128,128,0.4));"
    "padding:3px 14px 3px 0;text-align:left;vertical-align:top"
)
_CAPTION = "text-align:left;font-weight:600;caption-side:top;color:var(--jp-content-font-color1,inherit)"
_NOTE = "color:var(--jp-content-font-color2,inherit)"


@dataclass(frozen=True, slots=True)
class Rendering:
    """Something to show, in both forms."""

    text: str
    markup: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.markup}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption; ``empty`` is said where there are none."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str = ""


def sentence(text: str) -> Rendering:
    """Show one sentence."""
    return Rendering(text, f'<div role="status">{html.escape(text)}</div>')


def tables(parts: Iterable[Table], notes: Iterable[str] = ()) -> Rendering:
    """Show tables, and sentences under them."""
    parts, notes = list(parts), list(notes)
    text = [_table_text(table) for table in parts] + list(notes)
    markup = [_table_html(table) for table in parts]
    markup += [f'<div style="{_NOTE}">{html.escape(note)}</div>' for note in notes]
    return Rendering("\n".join(text), f"<div>{''.join(markup)}</div>")


def _table_text(table: Table) -> str:
    if not table.rows:
        return f"{table.caption}: {table.empty}"
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(
        title=Text(table.caption), title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in table.header:
        grid.add_column(Text(name), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    output = io.StringIO()
    Console(file=output, width=_WIDTH, color_system=None, force_jupyter=False).print(grid)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def _table_html(table: Table) -> str:
    if not table.rows:
        return (
            f'<div style="{_NOTE};margin:4px 0"><b>{html.escape(table.caption)}</b>: '
            f"{html.escape(table.empty)}</div>"
        )
    head = "".join(f'<th scope="col" style="{_CELL}">{html.escape(name)}</th>' for name in table.header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_style(cell)}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f'<table style="{_TABLE}"><caption style="{_CAPTION}">{html.escape(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _style(cell: str) -> str:
    """Keep short cells on one line."""
    return f"{_CELL};white-space:nowrap" if len(cell) < _SHORT else _CELL


def lease(doc: LeaseDoc) -> Rendering:
    """Show one lease with what is in force."""
    facts = lease_facts(doc)
    width = max(len(name) for name, _ in facts)
    lines = [f"Lease {doc.id}"] + [f"  {name.ljust(width)}  {value}" for name, value in facts]
    lines += [f"  {note}" for note in notes_of(doc)]
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL}">{html.escape(name)}</th>'
        f'<td style="{_CELL}">{html.escape(value)}</td></tr>'
        for name, value in facts
    )
    caption = f'<caption style="{_CAPTION}">Lease <code>{html.escape(doc.id)}</code></caption>'
    notes = "".join(f'<div style="{_NOTE}">{html.escape(note)}</div>' for note in notes_of(doc))
    table = f'<table style="{_TABLE}">{caption}<tbody>{rows}</tbody></table>'
    return Rendering("\n".join(lines), f"<div>{table}{notes}</div>")


def reason(doc: LeaseDoc, text: str) -> Rendering:
    """Answer why a lease is as it is: the sentence, then what is in force for each resource."""
    facts = [f"{name}: {value}" for name, value in limits(doc)] if doc.state is LeaseState.ACTIVE else []
    notes = notes_of(doc) if doc.state is LeaseState.ACTIVE else list(doc.notices)
    rest = [*facts, *notes]
    first = sentence(text)
    markup = "".join(f'<div style="{_NOTE}">{html.escape(it)}</div>' for it in rest)
    return Rendering("\n".join([first.text, *rest]), f"<div>{first.markup}{markup}</div>")


def why(docs: Sequence[WhyDoc]) -> Rendering:
    """Answer why requests wait: the sentences, and the leases that are in their way."""
    parts = []
    for doc in docs:
        name = f"…{doc.lease_id[-8:]}"
        place = f"{name}, position {doc.position}" if doc.position is not None else name
        said = [sentence(f"{place}: {doc.sentences[0]}"), *map(sentence, doc.sentences[1:])]
        header = ("lease", "share", "of", "held for", "probably ends in")
        if doc.blockers:
            said.append(tables([Table("In its way", header, [_blocker_row(it) for it in doc.blockers])]))
        parts += said
    return Rendering("\n".join(it.text for it in parts), f"<div>{''.join(it.markup for it in parts)}</div>")


def _blocker_row(doc: BlockerDoc) -> tuple[str, ...]:
    return (
        f"…{doc.lease_id[-8:]} (mine)" if doc.mine else "somebody else's",
        format_compute(doc.compute_milli),
        ", ".join(doc.devices),
        format_duration(doc.held_seconds),
        spread(doc.ends),
    )


# --- the pool -------------------------------------------------------------------------------------


def devices(docs: Sequence[DeviceDoc]) -> Table:
    """Show devices with what is free on them; how they are shared, where somebody says it."""
    header: tuple[str, ...] = ("device", "model", "free compute", "free memory", "in use", "state")
    rows = [_device_row(doc) for doc in docs]
    if any(doc.sharing for doc in docs):
        header = (*header[:2], "shared by", *header[2:])
        rows = [(*row[:2], doc.sharing or "–", *row[2:]) for doc, row in zip(docs, rows, strict=True)]
    return Table("Devices", header, rows, "none yet")


def _device_row(doc: DeviceDoc) -> tuple[str, ...]:
    model = doc.model + (" [emulated]" if doc.emulated and "emulated" not in doc.model else "")
    used, why = doc.readings.utilization_percent, doc.missing.get("utilization_percent", "")
    return (
        doc.name,
        model,
        f"{format_compute(doc.free_compute_milli)} of {format_compute(WHOLE_MILLI)}",
        f"{format_memory(doc.free_memory_bytes)} of {format_memory(doc.memory_bytes)}",
        (f"unknown ({why})" if why else "unknown") if used is None else f"{used:.0f} %",
        doc.health.value if doc.offered else doc.withheld or "not offered",
    )


def device_notes(docs: Iterable[DeviceDoc]) -> list[str]:
    """Say what is wrong with devices, and who uses them without a lease."""
    notes: list[str] = []
    for doc in docs:
        if doc.health_reason:
            notes.append(f"{doc.name} is {doc.health.value}: {doc.health_reason.rstrip('.')}.")
        notes += [f"{doc.name} is used without a lease by {_process(it)}." for it in doc.unmanaged]
    return notes


def _process(doc: ProcessDoc) -> str:
    """Say which process it is: "process 4711 (python, of ann), 1.0 GiB"."""
    known = [part for part in (doc.name, f"of {doc.user}" if doc.user else "") if part]
    who = f"process {doc.pid}" + (f" ({', '.join(known)})" if known else "")
    return who if doc.memory_bytes is None else f"{who}, {format_memory(doc.memory_bytes)}"


def my_leases(docs: Sequence[LeaseDoc], here: Iterable[str]) -> Table:
    """Show my leases; those of this process are marked."""
    here = set(here)
    rows = [_lease_row(doc, doc.id in here) for doc in docs if doc.mine]
    header = ("lease", "holder", "share", "memory", "compute", "state")
    return Table("My leases", header, rows, "none; `%gpupool request 0.25` asks for one")


def _lease_row(doc: LeaseDoc, here: bool) -> tuple[str, ...]:
    active = doc.state is LeaseState.ACTIVE
    return (
        f"…{doc.id[-8:]}",
        "this process" if here else doc.holder.label or "another process",
        share_of(doc),
        in_force(doc, Resource.MEMORY) if active else format_memory(doc.memory_bytes),
        in_force(doc, Resource.COMPUTE) if active else "",
        state_of(doc),
    )


def pool(doc: PoolDoc, here: Iterable[str]) -> Rendering:
    """Show the pool, my leases and the queue."""
    parts = [devices(doc.devices), my_leases(doc.leases, here)]
    if doc.queue:
        rows = [
            (
                str(entry.position),
                "mine" if entry.mine else "",
                entry.reason,
                format_duration(entry.waited_seconds),
            )
            for entry in doc.queue
        ]
        parts.append(Table("Queue", ("position", "", "reason", "waited"), rows))
    told = [f"…{lease.id[-8:]}: {notice}" for lease in doc.leases if lease.mine for notice in lease.notices]
    return tables(parts, [*told, *doc.warnings])


def usage(docs: Sequence[UsageDoc]) -> Rendering:
    """Show what each owner has used."""
    rows = [
        (
            doc.owner + (" (me)" if doc.mine else ""),
            f"{doc.device_seconds / 3600:.3f}",
            str(doc.leases),
            str(doc.live_leases),
        )
        for doc in docs
    ]
    parts = [Table("Usage", ("owner", "device-hours", "leases", "live now"), rows, "nothing yet")]
    limits = [_quota_row(quota) for doc in docs if doc.mine for quota in doc.quotas]
    if limits:
        parts.append(Table("My quotas", ("of", "limits", "limit", "used", "left"), limits, ""))
    return tables(parts)


#: What a quota limits -> how it is called.
_LIMITED = {
    "compute": "devices at once",
    "memory": "memory at once",
    "leases": "leases at once",
    "hours_per_week": "device-hours a week",
    "cpus": "cores beside devices at once",
    "memory_host": "main memory beside devices at once",
}
#: Which of these are bytes.
_BYTES = ("memory", "memory_host")


def _quota_row(quota: QuotaDoc) -> tuple[str, ...]:
    kind = f"{quota.kind.value.upper()} " if quota.kind is not None else ""
    numbers = (quota.limit, quota.used, quota.left)
    return (
        f"group {quota.group}" if quota.group else "me",
        f"{kind}{_LIMITED.get(quota.what, quota.what)}",
        *(format_memory(round(it)) if quota.what in _BYTES else f"{it:.4g}" for it in numbers),
    )
