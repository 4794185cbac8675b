"""The figures of a simulation by name, for every kind of report.

Rule of this module: a figure has one name, one format and one explanation, whoever shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gpupool.sim.compare import Outcome


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: its name, and how it is shown."""

    name: str
    show: Callable[[Outcome], str]


def seconds(value: float) -> str:
    """Write a wait: "0 s", "42 s", "12.5 min", "3.2 h"."""
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def percent(part: float) -> str:
    """Write a part of a whole; never 100 % of what is not all."""
    shown = f"{100 * part:.1f}"
    return "99.99 %" if shown == "100.0" and part < 1 else f"{shown} %"


def _taken(it: Outcome) -> str:
    return f"{it.counts.taken:,} ({it.counts.taken_in_use:,} during a cell)"


def _refused(it: Outcome) -> str:
    why = ", ".join(
        f"{code.replace('_', ' ')} {times:,}" for code, times in sorted(it.counts.refusals.items())
    )
    return f"{it.counts.refused:,} ({why})" if why else "0"


#: All figures, in the order in which they are shown.
ROWS = (
    Row("device-hours in the pool", lambda it: f"{it.capacity_hours:,.0f}"),
    Row(
        "device-hours held", lambda it: f"{it.held_hours:,.0f} ({percent(it.held_hours / it.capacity_hours)})"
    ),
    Row(
        "device-hours in use",
        lambda it: f"{it.busy_hours:,.0f} ({percent(it.busy_hours / it.capacity_hours)})",
    ),
    Row(
        "in use of what is held", lambda it: percent(it.busy_hours / it.held_hours) if it.held_hours else "-"
    ),
    Row("requests", lambda it: f"{it.counts.requests:,}"),
    Row("requests granted", lambda it: percent(it.success)),
    Row("requests granted within 1 s", lambda it: percent(it.requests.within_1s)),
    Row("wait of a request, p50", lambda it: seconds(it.requests.p50_seconds)),
    Row("wait of a request, p95", lambda it: seconds(it.requests.p95_seconds)),
    Row("wait of a request, p99", lambda it: seconds(it.requests.p99_seconds)),
    Row("cells", lambda it: f"{it.cells.count:,}"),
    Row("cells that began within 1 s", lambda it: percent(it.cells.within_1s)),
    Row("wait of a cell, p95", lambda it: seconds(it.cells.p95_seconds)),
    Row("wait of a cell, p99", lambda it: seconds(it.cells.p99_seconds)),
    Row("fairness (Jain)", lambda it: f"{it.fairness:.3f}"),
    Row("fragmentation", lambda it: percent(it.fragmentation)),
    Row("taken back for somebody who waited", _taken),
    Row("taken back after long idleness", lambda it: f"{it.counts.released_idle:,}"),
    Row("kernels culled", lambda it: f"{it.counts.culled:,}"),
    Row("cells that found their share gone", lambda it: f"{it.counts.came_back:,}"),
    Row("requests refused", _refused),
    Row("leases pinned", lambda it: f"{it.counts.pinned:,} (and {it.counts.pins_refused:,} refused)"),
    Row("hours of cells lost", lambda it: f"{it.lost_hours:.3g}"),
)

#: What the names mean.
EXPLAINED = (
    "Held: taken by a lease. In use: held while a cell runs. Both until the last request that counts.",
    "A request waits from asking to its grant. A cell waits from the moment it wants to run until it has its "
    "share; one whose share is there does not wait.",
    "Who still waits at the end, or left without a grant, has waited until then, and is not granted.",
    "Fairness is Jain's index over owners, of the part of the time in which an owner wanted to compute and "
    "could: 1 when all fare alike, 1/n when one gets everything.",
    "Fragmentation is the part of the free compute on which the sizes that are asked for would not fit, each "
    "weighted by how often it is asked for.",
    "A cell that finds its share gone asks again, and takes longer by what has to be loaded again. A cell "
    "that is cut off begins anew.",
)
