"""``jupyter gpupool``: what people and service managers type.

Rules of this module: what is heavy is imported by the command that needs it; errors are one sentence with
the next step.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from jupyter_core.application import JupyterApp, base_aliases, base_flags
from traitlets import Bool, Float, Int, TraitError, Unicode, Union
from traitlets.config import Config

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster.settings import PoolAgent, load_rules
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import data_dir, lock_dir, runtime_dir
from jupyter_gpupool.service.settings import PoolService

_COMMON_FLAGS = {key: base_flags[key] for key in ("debug", "show-config", "show-config-json")}
_COMMON_ALIASES = {key: base_aliases[key] for key in ("log-level", "config")}
#: What is decided about a node's devices, where the agent is started by hand or by a service.
_AGENT_ALIASES = {
    "emulate": "PoolService.emulate",
    "sharing": "PoolAgent.default_sharing",
    "sharing-file": "PoolAgent.sharing_file",
    "require-isolation": "PoolAgent.require_isolation",
    "unmanaged": "PoolAgent.unmanaged",
    "over-limit": "PoolAgent.over_limit",
}

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


class _App(JupyterApp):  # type: ignore[misc]
    """Base of all commands."""

    version = version()
    config_file_name = "jupyter_gpupool_config"
    aliases: ClassVar[Any] = _COMMON_ALIASES
    flags: ClassVar[Any] = _COMMON_FLAGS

    def migrate_config(self) -> None:
        """Leave what IPython 3 left behind alone."""

    def start(self) -> None:
        """Run the command, and exit with its status; an error of ours is one sentence."""
        super().start()
        try:
            status = self.run()
        except GPUPoolError as error:
            print(f"jupyter gpupool: {error}", file=sys.stderr)  # noqa: T201 - this is a command
            status = 1
        except TraitError as error:
            print(f"jupyter gpupool: {error} See “jupyter gpupool config”.", file=sys.stderr)  # noqa: T201
            status = 1
        except (KeyboardInterrupt, BrokenPipeError):
            status = 130
        sys.exit(status)

    def run(self) -> int:
        """Do what the command is for, and return the exit status."""
        self.print_help()
        return 0

    def log_to_stderr(self) -> None:
        """Show what our modules log, with the time."""
        logging.basicConfig(
            stream=sys.stderr, level=self.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        logging.getLogger("jupyter_gpupool").setLevel(self.log_level)


class ServeApp(_App):
    """Run a pool service in this terminal (or, with --embedded, for this user's notebooks)."""

    name = "jupyter-gpupool-serve"
    description = __doc__
    examples = """
    jupyter gpupool serve                                      # the devices of this machine
    jupyter gpupool serve --emulate "8xA100-80GB,2xH100-80GB"  # emulated ones
    jupyter gpupool serve --sharing timeslice --unmanaged warn # rules for them
    """
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    aliases: ClassVar[Any] = {
        **_COMMON_ALIASES,
        **_AGENT_ALIASES,
        "ip": "PoolService.ip",
        "port": "PoolService.port",
    }
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "embedded": (
            {"ServeApp": {"embedded": True}},
            "End when no lease and no client is left for a while.",
        ),
        "emulate-beside": ({"PoolService": {"emulate_beside": True}}, PoolService.emulate_beside.help),
    }
    embedded = Bool(False, help="A user's own pool: it ends when nobody needs it.").tag(config=True)

    def run(self) -> int:
        """Serve until SIGTERM or Ctrl-C."""
        import asyncio

        from jupyter_gpupool.backends.shed import shed_inherited_limits
        from jupyter_gpupool.service.lifecycle import ServiceRuns
        from jupyter_gpupool.service.main import run_service

        shed_inherited_limits()
        self.log_to_stderr()
        rules = PoolAgent(parent=self).rules()
        settings = PoolService(parent=self).settings(embedded=self.embedded, rules=rules)
        try:
            return asyncio.run(run_service(settings))
        except ServiceRuns as error:
            return self._second(settings.runtime, error)

    def _second(self, runtime: Path, error: GPUPoolError) -> int:
        """Say which service runs already; for an embedded one that is as good as having started."""
        import time

        from jupyter_gpupool.client.embedded import START_SECONDS, find_running

        until = time.monotonic() + START_SECONDS
        while (winner := find_running(runtime)) is None:
            if time.monotonic() > until:
                raise error
            time.sleep(0.1)
        self.log.warning(
            "A pool runs already: %s (pid %d, version %s).", winner.url, winner.pid, winner.version
        )
        return 0 if self.embedded else 1


class AgentApp(_App):
    """Run the agent of this machine (a pool service starts it by itself)."""

    name = "jupyter-gpupool-agent"
    description = __doc__
    aliases: ClassVar[Any] = {**_COMMON_ALIASES, **_AGENT_ALIASES, "rules": "AgentApp.passed_rules"}
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "embedded": ({"AgentApp": {"embedded": True}}, "It belongs to a user's own pool."),
        "emulate-beside": ({"PoolService": {"emulate_beside": True}}, PoolService.emulate_beside.help),
    }
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    embedded = Bool(False, help="It belongs to a user's own pool.").tag(config=True)
    passed_rules = Unicode(
        "", help="Everything of PoolAgent as JSON, as a pool service passes it on; it overrides the rest."
    ).tag(config=True)

    def run(self) -> int:
        """Attach, watch and detach holders until there is nothing to do."""
        import asyncio

        from jupyter_gpupool.cluster.agent import AgentSettings, run_agent

        self.log_to_stderr()
        service = PoolService(parent=self)
        passed = self.passed_rules
        settings = AgentSettings(
            runtime=runtime_dir(),
            emulate=service.emulate,
            emulate_beside=service.emulate_beside,
            rules=load_rules(passed) if passed else PoolAgent(parent=self).rules(),
        )
        return asyncio.run(run_agent(settings))


class StatusApp(_App):
    """Show the pool: its devices, leases and queue. Starts nothing."""

    name = "jupyter-gpupool-status"
    description = __doc__
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "json": ({"StatusApp": {"json": True}}, "Print the pool snapshot as JSON."),
    }
    json = Bool(False, help="Print the pool snapshot as JSON.").tag(config=True)

    def run(self) -> int:
        """Print it; the status is 1 when no pool runs."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.protocol.codec import encode

        connection = find_pool(autostart=False)
        client = PoolClient(connection)
        pool = client.pool()
        client.close()
        if self.json:
            sys.stdout.write(encode(pool).decode() + "\n")
            return 0
        from rich.console import Console

        from jupyter_gpupool.service.terminal import print_pool

        print_pool(pool, connection.url, Console())
        return 0


class WhyApp(_App):
    """Say why a request waits: who is in its way, and for how long, probably. Starts nothing."""

    name = "jupyter-gpupool-why"
    description = __doc__
    examples = """
    jupyter gpupool why                 # all requests of yours that wait
    jupyter gpupool why lease_0199…7c2e # this one; the end of its id is enough
    """
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "json": ({"WhyApp": {"json": True}}, "Print the answers as JSON."),
    }
    json = Bool(False, help="Print the answers as JSON.").tag(config=True)

    def run(self) -> int:
        """Print it."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient
        from jupyter_gpupool.protocol.codec import encode

        client = PoolClient(find_pool(autostart=False))
        ids = [client.called(it) for it in self.extra_args]
        ids = ids or [entry.lease_id for entry in client.queue() if entry.mine]
        found = [client.why(it) for it in ids]
        client.close()
        if self.json:
            sys.stdout.write(encode(found).decode() + "\n")
            return 0
        from rich.console import Console

        from jupyter_gpupool.service.terminal import print_why

        for why in found:
            print_why(why, Console())
        if not found:
            print("None of your requests waits.")  # noqa: T201 - this is a command
        return 0


class StopApp(_App):
    """Stop the pool of this user. Leases keep it from stopping; --force ends them first."""

    name = "jupyter-gpupool-stop"
    description = __doc__
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "force": ({"StopApp": {"force": True}}, "End all leases first."),
    }
    force = Bool(False, help="End all leases first.").tag(config=True)

    def run(self) -> int:
        """Stop it, and wait until it has ended."""
        from jupyter_gpupool.service.stopping import stop_pool

        print(stop_pool(runtime_dir(), force=self.force))  # noqa: T201 - this is a command
        return 0


class SelfTestApp(_App):
    """Prove on this machine what is promised of leases: exceed their limits, and see that they hold."""

    name = "jupyter-gpupool-selftest"
    description = __doc__
    examples = """
    jupyter gpupool selftest                  # the CPU and all GPUs, about 4 minutes for each GPU at most
    jupyter gpupool selftest --device cuda0   # only this one
    jupyter gpupool selftest --json           # for programs
    """
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
        "json": ({"SelfTestApp": {"json": True}}, "Print the result as JSON."),
    }
    aliases: ClassVar[Any] = {**_COMMON_ALIASES, "device": "SelfTestApp.device"}
    json = Bool(False, help="Print the result as JSON.").tag(config=True)
    device = Unicode("", help="Name or id of the only device that is tried; empty for all.").tag(config=True)

    def run(self) -> int:
        """Print a table of claims; the status is 1 when one of them failed."""
        from jupyter_gpupool.protocol.codec import encode
        from jupyter_gpupool.selftest.run import run_selftest

        result = run_selftest(self.device)
        if self.json:
            sys.stdout.write(encode(result).decode() + "\n")
            return result.status
        from rich.console import Console

        from jupyter_gpupool.selftest.report import print_report

        print_report(result, Console())
        return result.status


class SimulateApp(_App):
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
        **_COMMON_ALIASES,
        **{name.replace("_", "-"): f"SimulateApp.{name}" for name in (*_SIMULATED, "scenario")},
    }
    flags: ClassVar[Any] = {
        **_COMMON_FLAGS,
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


class ConfigApp(_App):
    """Show every setting, its value, and where it came from."""

    name = "jupyter-gpupool-config"
    description = __doc__
    aliases: ClassVar[Any] = {**_COMMON_ALIASES, **_AGENT_ALIASES}
    classes: ClassVar[Any] = [PoolService, PoolAgent]

    def run(self) -> int:
        """Print a table."""
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        table.add_column("setting", no_wrap=True)
        for column in ("value", "from"):
            table.add_column(column, overflow="fold")
        parts = (self._places, self._settings, self._sharing, self._quotas, self._reservations)
        for row in (row for part in parts for row in part()):
            table.add_row(*row)
        Console(markup=False).print(table)
        return 0

    def _places(self) -> Iterator[tuple[str, str, str]]:
        for what, path, variable in (
            ("runtime directory", runtime_dir(), names.ENV_RUNTIME_DIR),
            ("data directory", data_dir(), names.ENV_DATA_DIR),
            ("device locks", lock_dir(), names.ENV_LOCK_DIR),
        ):
            yield what, str(path), f"environment ({variable})" if os.environ.get(variable) else "default"
        for variable in (names.ENV_URL, names.ENV_AUTOSTART):
            yield variable, os.environ.get(variable, "(not set)"), "environment"

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        sources = self._sources()
        for part in (PoolService(parent=self), PoolAgent(parent=self)):
            for name in sorted(part.trait_names(config=True)):
                key = f"{type(part).__name__}.{name}"
                value = getattr(part, name)
                # tokens are secrets: only whose there are is shown
                shown = f"for {', '.join(sorted(value)) or 'nobody'}" if name == "tokens" else repr(value)
                yield key, shown, sources.get(key, "default")

    def _sharing(self) -> Iterator[tuple[str, str, str]]:
        """Show the rules as they count, also those of a file."""
        for number, rule in enumerate(PoolAgent(parent=self).rules().sharing, 1):
            only = " or ".join(f"{name} >= {oldest}" for name, oldest in rule.frameworks)
            shown = f"{rule.model}: {rule.sharing.value}{f', time-sliced only with {only}' if only else ''}"
            yield f"sharing rule {number}", shown, "PoolAgent"

    def _quotas(self) -> Iterator[tuple[str, str, str]]:
        """Show what the file of quotas says."""
        from jupyter_gpupool.service.quota_config import describe_quotas

        service = PoolService(parent=self)
        for whose, said in describe_quotas(service.quotas()):
            yield f"quota of {whose}", said, service.quotas_file

    def _reservations(self) -> Iterator[tuple[str, str, str]]:
        """Show what the file of reservations says."""
        from jupyter_gpupool.service.reservation_config import describe_reservations

        service = PoolService(parent=self)
        for name, said in describe_reservations(service.reservations(service.quotas())):
            yield f"reservation “{name}”", said, service.reservations_file

    def _sources(self) -> dict[str, str]:
        """Return where each setting was set last, in the order in which they override each other."""
        found: dict[str, str] = {}
        for path in self.loaded_config_files:
            directory, name = os.path.split(path)
            for config, file in self._load_config_files(Path(name).stem, path=directory, log=self.log):
                if os.path.realpath(file) == os.path.realpath(path):
                    found.update(dict.fromkeys(_keys(config), path))
        found.update(dict.fromkeys(_keys(self.cli_config), "command line"))
        return found


def _keys(config: Config) -> Iterator[str]:
    for section, values in config.items():
        if isinstance(values, Config):
            yield from (f"{section}.{name}" for name in values)


class GPUPoolApp(_App):
    """Fractions of this machine's accelerators, leased to notebooks."""

    name = "jupyter-gpupool"
    description = __doc__
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    subcommands: ClassVar[Any] = {
        "serve": (ServeApp, "Run a pool service."),
        "agent": (AgentApp, "Run the agent of this machine."),
        "status": (StatusApp, "Show the pool: devices, leases, queue."),
        "simulate": (SimulateApp, "Try out a pool, its rules and its users before they are there."),
        "why": (WhyApp, "Say why a request waits, and for how long, probably."),
        "selftest": (SelfTestApp, "Prove on this machine what is promised of leases."),
        "config": (ConfigApp, "Show every setting and where it came from."),
        "stop": (StopApp, "Stop this user's pool."),
    }


def main(argv: list[str] | None = None) -> None:
    """Run ``jupyter gpupool``."""
    try:
        GPUPoolApp.launch_instance(argv)
    except BrokenPipeError:  # whoever read it has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(130)
