"""The report of a simulation as one HTML file that needs nothing else.

Rules of this module: no script, nothing is fetched; light or dark follows the reader's setting; every number
has its unit, and every word of a table is explained below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from jupyter_gpupool.sim.charts import Chart, Line
from jupyter_gpupool.sim.compare import Outcome
from jupyter_gpupool.sim.simulation import Simulation
from jupyter_gpupool.sim.table import EXPLAINED, ROWS

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --dim: #57606a; --page: #fff; --card: #f6f8fa;
  --rule: #d0d7de; --a: #0a5cc2; --b: #b8400a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --dim: #9aa4af; --page: #0d1117;
  --card: #161b22; --rule: #30363d; --a: #6cb6ff; --b: #ffab70; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 1360px; margin: 0 auto; padding: 24px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 28px 0 8px; }
p, li { color: var(--dim); margin: 2px 0; } code { color: var(--text); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 12px; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; } tbody td:first-child { white-space: nowrap; }
thead th { vertical-align: bottom; font-weight: 400; } thead code { font-size: 13px; }
thead b { display: block; font-size: 16px; } .wide { overflow-x: auto; }
th.a { color: var(--a); } th.b { color: var(--b); } td.none { color: var(--dim); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 12px; background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px; }
figcaption { font-weight: 600; } figure > svg { width: 100%; height: auto; display: block; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0; margin: 2px 0 6px;
  font-size: 13px; }
.legend svg { width: 26px; height: 8px; margin-right: 6px; vertical-align: middle; }
.grid { stroke: var(--rule); stroke-width: 1; fill: none; }
.tick, .axis { fill: var(--dim); font-size: 12px; text-anchor: middle; } .tick.up { text-anchor: end; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .line.a { stroke: var(--a); }
.line.b { stroke: var(--b); stroke-dasharray: 7 3; }
.line.limit { stroke: var(--dim); stroke-dasharray: 2 3; }
.line.busy { stroke: var(--text); stroke-width: 1.5; }
.area { stroke: none; opacity: .16; } .area.a { fill: var(--a); } .area.b { fill: var(--b); }
"""
_LOOKS = ("a", "b")


def report_html(simulation: Simulation) -> str:
    """Return the whole page."""
    outcomes = simulation.outcomes
    title = f"Simulation: {simulation.workload}"
    notes = "".join(f"<li>{escape(note)}</li>" for note in simulation.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{escape(simulation.pool)} · {escape(simulation.length)} · "
        f"seed {simulation.seed}</p><ul>{notes}</ul>"
        f"<h2>Figures</h2>{_table(outcomes)}"
        f"<h2>Over time</h2><div class='charts'>{''.join(it.figure() for it in _over_time(outcomes))}</div>"
        f"<h2>Waits</h2><div class='charts'>{''.join(it.figure() for it in _waits(outcomes))}</div>"
        f"<h2>What the words mean</h2><ul>{''.join(f'<li>{escape(it)}</li>' for it in EXPLAINED)}</ul>"
        f"<p>Made by jupyter_gpupool {escape(simulation.version)}.</p></body></html>\n"
    )


def _table(outcomes: Sequence[Outcome]) -> str:
    head = "".join(
        f'<th scope="col" class="{look}"><b>{look.upper()}</b><code>{escape(_spaced(it.policy))}</code></th>'
        for look, it in zip(_LOOKS, outcomes, strict=False)
    )
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in (row.name, *map(row.show, outcomes)))}</tr>"
        for row in ROWS
    )
    head = f"<thead><tr><td></td>{head}</tr></thead>"
    return f"<div class='wide'><table>{head}<tbody>{rows}</tbody></table></div>"


def _spaced(policy: str) -> str:
    """Let a line of settings be broken between them."""
    return policy.replace(",", ", ")


def _over_time(outcomes: Sequence[Outcome]) -> list[Chart]:
    top = max((it.capacity_hours / max(it.series[-1][0], 1e-9) if it.series else 1.0) for it in outcomes)
    return [
        *(_devices(look, it, top) for look, it in zip(_LOOKS, outcomes, strict=False)),
        _compared(outcomes, 3, "Requests in the queue", "requests"),
        _compared(outcomes, 4, "Fragmentation: free compute that is of no use", "part", percent=True),
    ]


def _devices(look: str, outcome: Outcome, top: float) -> Chart:
    hours = [row[0] for row in outcome.series]
    return Chart(
        title=f"Devices held and in use: {look.upper()}",
        across="hours from the beginning",
        up="devices",
        top=top,
        lines=(
            Line(name="held", look=look, points=[(row[0], row[1]) for row in outcome.series], filled=True),
            Line(name="in use", look="busy", points=[(row[0], row[2]) for row in outcome.series]),
            Line(name="in the pool", look="limit", points=[(hour, top) for hour in (0.0, *hours[-1:])]),
        ),
    )


def _compared(
    outcomes: Sequence[Outcome], column: int, title: str, up: str, *, percent: bool = False
) -> Chart:
    lines = [
        Line(name=look.upper(), look=look, points=[(row[0], row[column]) for row in it.series])
        for look, it in zip(_LOOKS, outcomes, strict=False)
    ]
    return Chart(
        title=title,
        across="hours from the beginning",
        up=up,
        lines=lines,
        percent=percent,
    )


def _waits(outcomes: Sequence[Outcome]) -> list[Chart]:
    charts = []
    for title, name in (("Requests", "requests"), ("Cells", "cells")):
        lines = [
            Line(name=look.upper(), look=look, points=getattr(it, name).curve)
            for look, it in zip(_LOOKS, outcomes, strict=False)
        ]
        charts.append(
            Chart(
                title=f"{title} that waited no longer than this",
                across="wait",
                up=f"part of all {name}",
                lines=lines,
                top=1.0,
                logarithmic=True,
                percent=True,
            )
        )
    return charts
