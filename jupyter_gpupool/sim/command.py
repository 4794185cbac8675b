"""What ``jupyter gpupool simulate`` does with its options.

Rule of this module: everything is looked at before anything is played.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import parse_compute
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.sim.compare import USUAL, parse_policy
from jupyter_gpupool.sim.journal_load import journal_workload
from jupyter_gpupool.sim.notebook_class import IDLE_SESSIONS, SIZES, NotebookClass
from jupyter_gpupool.sim.pools import SimPool, live_pool, openb_pool, parse_pool
from jupyter_gpupool.sim.report_html import report_html
from jupyter_gpupool.sim.simulation import simulate
from jupyter_gpupool.sim.workload import Workload, faster, openb_workload


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was written on the command line.

    Attributes
    ----------
    pool : str
        A description, "live" or "openb:FOLDER".
    users : int
        Of a synthetic class; counts where neither a journal nor a trace is given.
    days : float
        For how long the class is looked at.
    seed : int
        Of everything that is drawn.
    sizes : str
        "0.25:7,0.5:2,1:1": share sizes and their weights; empty for the usual mix.
    idle_sessions : float
        The part of the class's sessions that hold a share and never use it.
    journal, openb : str
        Path of a journal, or of a pod list, to be played instead.
    load : float
        How many times as fast everything is asked for.
    policy : str
        The settings that are played.
    compare : str
        What is changed of them for a second run beside it; empty for none.
    as_json : bool
        Whether JSON is printed instead of a table.
    html : str
        Where the report is written; empty for nowhere.
    """

    pool: str = "2*8xA100-80GB"
    users: int = 100
    days: float = 5
    seed: int = 0
    sizes: str = ""
    idle_sessions: float = IDLE_SESSIONS
    journal: str = ""
    openb: str = ""
    load: float = 1
    policy: str = USUAL
    compare: str = ""
    as_json: bool = False
    html: str = ""


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
    html = _writable(options.html)
    pool = _pool(options.pool)
    with progress([it.text for it in policies], Console(stderr=True)) as tell:
        simulation = simulate(pool, _workload(options), policies, seed=options.seed, tell=tell)
    if html is not None:
        html.write_text(report_html(simulation), encoding="utf-8")
    if options.as_json:
        sys.stdout.write(encode(simulation.document()).decode() + "\n")
        return 0
    print_simulation(simulation, Console())
    if html is not None:
        Console().print(f"The report is {html}.", highlight=False, markup=False, soft_wrap=True)
    return 0


def _writable(path: str) -> Path | None:
    """See, before anything is played, that a report can be written."""
    if not path:
        return None
    try:
        with Path(path).open("a", encoding="utf-8"):
            return Path(path)
    except OSError as error:
        raise InvalidValue(f"The report {path} cannot be written: {error.strerror}.") from error


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


def _workload(options: Options) -> Workload:
    if options.journal and options.openb:
        raise InvalidValue("A journal and an openb trace cannot be played at once.", hint="Name one of them.")
    if options.journal:
        return faster(journal_workload(Path(options.journal)), options.load)
    if options.openb:
        return faster(openb_workload(Path(options.openb)), options.load)
    made = NotebookClass(
        users=options.users,
        days=options.days,
        seed=options.seed,
        sizes=parse_sizes(options.sizes),
        idle_sessions=options.idle_sessions,
    )
    return faster(made.workload(), options.load)


def parse_sizes(text: str) -> dict[int, float]:
    """Read "0.25:7,0.5:2,1:1"; a weight of 1 need not be written.

    Raises
    ------
    InvalidValue
        If it cannot be read.
    """
    found: dict[int, float] = {}
    for part in (it.strip() for it in text.split(",") if it.strip()):
        size, _, weight = part.partition(":")
        try:
            found[parse_compute(size.strip())] = float(weight or 1)
        except ValueError:
            raise InvalidValue(
                f"“{part[:40]}” is not a share size.", hint="Write 0.25:7,0.5:2,1:1."
            ) from None
    if any(not 0 < weight < 1e9 for weight in found.values()):
        raise InvalidValue("Weights of share sizes are more than 0.", hint="Write 0.25:7,0.5:2,1:1.")
    return found or dict(SIZES)
