"""What ``jupyter gpupool simulate`` does with its options.

Rule of this module: everything is looked at before anything is played.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.sim.compare import Place, parse_policy
from jupyter_gpupool.sim.journal_load import journal_workload
from jupyter_gpupool.sim.notebook_class import NotebookClass
from jupyter_gpupool.sim.options import Options, parse_begin, parse_sizes
from jupyter_gpupool.sim.owners import pinned, with_owners
from jupyter_gpupool.sim.pools import SimPool, live_pool, openb_pool, parse_pool
from jupyter_gpupool.sim.report_html import report_html
from jupyter_gpupool.sim.simulation import simulate
from jupyter_gpupool.sim.workload import Workload, faster, openb_workload


def run_command(options: Options) -> int:
    """Play what was asked for, and show it; the status is 0.

    Raises
    ------
    GPUPoolError
        If something that was written means nothing, or cannot be read.
    """
    from rich.console import Console

    from jupyter_gpupool.sim.terminal import print_simulation, progress

    policies = [parse_policy(options.policy)]
    if options.compare:
        policies.append(parse_policy(options.compare, policies[0]))
    begins_ms = parse_begin(options.begins)
    with progress(["the workload", *(it.text for it in policies)], Console(stderr=True)) as tell:
        html = _writable(options.html)
        pool = _pool(options.pool)
        workload = _workload(options, lambda part: tell(0, part))
        place = Place(
            quotas=with_owners(options.quotas, workload),
            reservations=options.reservations,
            begins_ms=begins_ms,
        )
        with _collecting_seldom():
            simulation = simulate(
                pool,
                workload,
                policies,
                place,
                seed=options.seed,
                tell=lambda number, part: tell(number + 1, part),
            )
    if html is not None:
        html.write_text(report_html(simulation), encoding="utf-8")
    if options.as_json:
        sys.stdout.write(encode(simulation.document()).decode() + "\n")
        return 0
    print_simulation(simulation, Console())
    if html is not None:
        Console().print(f"The report is {html}.", highlight=False, markup=False, soft_wrap=True)
    return 0


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Look for cycles a hundred times less often: a simulation makes values by the million, and no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(100 * before[0], *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _writable(path: str) -> Path | None:
    """See, before anything is played, that a report can be written."""
    if not path:
        return None
    try:
        with Path(path).open("a", encoding="utf-8"):
            return Path(path)
    except OSError as error:
        raise InvalidValue(
            f"The report {path} cannot be written: {error.strerror}.", hint="Name another file with --html."
        ) from error


def _pool(text: str) -> SimPool:
    if text.startswith("openb:"):
        return openb_pool(Path(text.removeprefix("openb:")))
    if text != "live":
        return parse_pool(text)
    from jupyter_gpupool.client.discovery import find_pool
    from jupyter_gpupool.client.sync import PoolClient

    client = PoolClient(find_pool(autostart=False))
    try:
        return live_pool(client.pool())
    finally:
        client.close()


def _workload(options: Options, tell: Callable[[float], None]) -> Workload:
    if options.journal and options.openb:
        raise InvalidValue("A journal and an openb trace cannot be played at once.", hint="Name one of them.")
    if options.journal:
        workload = journal_workload(Path(options.journal))
    elif options.openb:
        workload = openb_workload(Path(options.openb))
    else:
        workload = NotebookClass(
            users=options.users,
            days=options.days,
            seed=options.seed,
            sizes=parse_sizes(options.sizes),
            idle_sessions=options.idle_sessions,
        ).workload(tell)
    return pinned(faster(workload, options.load), options.pinned)
