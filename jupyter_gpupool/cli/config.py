"""``jupyter gpupool config``.

Rule of this module: every value is shown with its source, and no secret is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from traitlets.config import Config

from jupyter_gpupool.cli.base import AGENT_ALIASES, COMMON_ALIASES, Command
from jupyter_gpupool.cluster.settings import PoolAgent
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.paths import data_dir, lock_dir, runtime_dir
from jupyter_gpupool.service.settings import PoolService


class ConfigApp(Command):
    """Show every setting, its value, and where it came from."""

    name = "jupyter-gpupool-config"
    description = __doc__
    aliases: ClassVar[Any] = {**COMMON_ALIASES, **AGENT_ALIASES}
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
        for variable in (names.ENV_URL, names.ENV_CA_FILE, names.ENV_AUTOSTART):
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
            yield f"quota of {whose}", said, str(service.quotas_path)

    def _reservations(self) -> Iterator[tuple[str, str, str]]:
        """Show what the file of reservations says."""
        from jupyter_gpupool.service.reservation_config import describe_reservations

        service = PoolService(parent=self)
        for name, said in describe_reservations(service.reservations(service.quotas())):
            yield f"reservation “{name}”", said, str(service.reservations_path)

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
