"""A simulation in a terminal: how far it is, and its figures as a table.

Rule of this module: rendering only; progress goes where errors go, so that a pipe gets figures alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from jupyter_gpupool.sim.simulation import Simulation
from jupyter_gpupool.sim.table import ROWS

if TYPE_CHECKING:
    from rich.console import Console

#: Before this nobody has to be told that it goes on, seconds.
_PATIENCE_SECONDS = 1.0


class Tell(Protocol):
    """Is told how far a simulation is."""

    def __call__(self, number: int, part: float) -> None:
        """Note that so much of a policy's run is over."""


@contextmanager
def progress(names: Sequence[str], console: Console) -> Iterator[Tell]:
    """Show how far it is, a bar for each part of the work, once it takes longer than a moment."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)
    tasks = [bars.add_task(name[:60], total=1.0) for name in names]
    late = threading.Timer(_PATIENCE_SECONDS, bars.start)
    late.daemon = True

    def tell(number: int, part: float) -> None:
        for at, task in enumerate(tasks[: number + 1]):
            bars.update(task, completed=part if at == number else 1.0)

    late.start()
    try:
        yield tell
    finally:
        late.cancel()
        late.join()
        if bars.live.is_started:
            bars.stop()


def print_simulation(simulation: Simulation, console: Console) -> None:
    """Print the figures."""
    from rich.markup import escape
    from rich.table import Table

    console.print(
        f"{simulation.workload} on {simulation.pool}, seed {simulation.seed}", highlight=False, markup=False
    )
    for note in simulation.notes:
        console.print(note, style="dim", highlight=False, markup=False)
    letters = "AB" if len(simulation.outcomes) > 1 else "A"
    for letter, outcome in zip(letters, simulation.outcomes, strict=True):
        console.print(f"{letter}: {outcome.policy.replace(',', ', ')}", highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for letter in letters:
        table.add_column(letter, justify="right", overflow="fold")
    for row in ROWS:
        table.add_row(escape(row.name), *(escape(row.show(it)) for it in simulation.outcomes))
    console.print(table)
    console.print(simulation.speed, style="dim", highlight=False, markup=False)
