"""``jupyter gpupool simulate``.

Rule of this module: what is typed comes before what a file says, and nothing typed is passed over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from traitlets import Bool, Float, Int, Unicode, Union

from jupyter_gpupool.cli.base import COMMON_ALIASES, COMMON_FLAGS, Command
from jupyter_gpupool.core.errors import InvalidValue

#: Options of the simulator, as they are named there.
_SIMULATED = (
    *("pool", "users", "days", "seed", "sizes", "idle_sessions", "journal", "openb", "load", "begins"),
    *("pinned", "quotas", "reservations", "policy", "compare", "html"),
)


def _written(default: str | float, meaning: str) -> Any:
    """Make a trait for something that is read, and refused in words, by the command."""
    if isinstance(default, str):
        return Unicode(default, help=meaning).tag(config=True)
    return Union([Int(), Float(), Unicode()], default_value=default, help=meaning).tag(config=True)


class SimulateApp(Command):
    """Try out a pool, its rules and its users before they are there: what is held, and who waits."""

    name = "jupyter-gpupool-simulate"
    description = __doc__
    examples = """
    jupyter gpupool simulate --pool "2*8xA100-80GB" --users 200 --compare plain
    jupyter gpupool simulate --pool live --users 50 --html report.html
    jupyter gpupool simulate --pool "8xT4-16GB@96/768GiB" --journal ~/.local/share/…/journal.sqlite
    jupyter gpupool simulate --pool openb:FOLDER --openb FOLDER/openb_pod_list_default.csv --load 4
    jupyter gpupool simulate --scenario course.yaml --compare place=pack
    """
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        **{name.replace("_", "-"): f"SimulateApp.{name}" for name in (*_SIMULATED, "scenario")},
    }
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"SimulateApp": {"json": True}}, "Print everything as JSON."),
    }
    json = Bool(False, help="Print everything as JSON.").tag(config=True)
    pool = _written("2*8xA100-80GB", "NODES*DEVICES@CORES/MEMORY; …, or “live”, or openb:FOLDER.")
    scenario = _written("", "Take these options from a YAML file; what is typed comes first.")
    users = _written(100, "Users of a made-up class, where no journal and no trace is named.")
    days = _written(5.0, "For how many days the class is looked at.")
    seed = _written(0, "Of everything that is drawn: the same seed gives the same figures.")
    sizes = _written("", "Share sizes of the class and their weights: 0.25:7,0.5:2,1:1.")
    idle_sessions = _written(0.7, "Part of the class's sessions that never use their share.")
    journal = _written("", "Play what this journal says that was asked for; it is only read.")
    openb = _written("", "Play this pod list of the openb traces.")
    load = _written(1.0, "Ask for everything so many times as fast.")
    begins = _written("", "Day on which it begins, as 2026-12-07 (UTC): for weeks and reservations.")
    pinned = _written("", "Owners who pin their leases: names, * for any letters, commas between.")
    quotas = _written("", "Apply the quotas in this file.")
    reservations = _written("", "Apply the reservations in this file.")
    policy = _written("", "Settings to play: order=fair,place=pack,…; empty for the usual ones.")
    compare = _written("", "Play again with these changes: order=fifo,place=best_fit,…; or plain.")
    html = _written("", "Write a report with plots to this file.")

    def run(self) -> int:
        """Play it, and print the figures."""
        from jupyter_gpupool.core.quotas import Quotas
        from jupyter_gpupool.service.quota_config import read_quotas
        from jupyter_gpupool.service.reservation_config import read_reservations
        from jupyter_gpupool.sim.command import run_command
        from jupyter_gpupool.sim.options import read_options
        from jupyter_gpupool.sim.scenario import read_scenario

        self._refuse_unknown()
        written = {name: getattr(self, name) for name in _SIMULATED}
        if self.scenario:
            typed = self.cli_config.get("SimulateApp", {})
            said = read_scenario(Path(self.scenario))
            written |= {name: value for name, value in said.items() if name not in typed}
        quotas_file, reservations_file = written.pop("quotas"), written.pop("reservations")
        quotas = read_quotas(Path(quotas_file)) if quotas_file else Quotas()
        reservations = read_reservations(Path(reservations_file), quotas) if reservations_file else ()
        return run_command(read_options(written, as_json=self.json, quotas=quotas, reservations=reservations))

    def parse_command_line(self, argv: list[str] | None = None) -> None:
        """Take the options, and note what is none."""
        super().parse_command_line(argv)
        known = {"help", "help-all", "version", "y", "generate-config", *self.flags, *self.aliases}
        names = [it.lstrip("-").partition("=")[0] for it in argv or () if it.startswith("--")]
        self.unknown = [f"--{it}" for it in names if it and it not in known and "." not in it]
        self.unknown += self.extra_args if not self.unknown else []

    def _refuse_unknown(self) -> None:
        """Refuse what would be passed over, so that nobody takes the figures for those of something else."""
        if self.unknown:
            raise InvalidValue(
                f"“{self.unknown[0][:60]}” is no option of simulate.", hint="List them with --help."
            )
