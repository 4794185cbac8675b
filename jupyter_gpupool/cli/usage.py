"""``jupyter gpupool usage``: who has held and used what, for people and for their accounting.

Rules of this module: the pool adds up, this only asks and writes; hours have enough digits that their sum is
right to the second.
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from traitlets import Enum, Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, Command
from jupyter_gpupool.core.errors import GPUPoolError

if TYPE_CHECKING:
    from jupyter_gpupool.protocol.documents import UsageRowDoc

_FORMATS = ("table", "csv", "json", "parquet")
_PERIODS = ("", "today", "yesterday", "week", "last-week", "month", "last-month")


class CannotWrite(GPUPoolError):
    """Raised when the report cannot be written in that form or place. The message says what to do."""

    code = "cannot_write"


class UsageApp(Command):
    """Report device-hours by owner, group, model and isolation: held, and really used. Starts nothing."""

    name = "jupyter-gpupool-usage"
    description = __doc__
    examples = """
    jupyter gpupool usage                                        # the last 30 days
    jupyter gpupool usage --period last-month --zone Europe/Berlin --by group,model
    jupyter gpupool usage --since 2026-11-01 --until 2026-12-01 --every day --format csv --output nov.csv
    """
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        "since": "UsageApp.since",
        "until": "UsageApp.until",
        "period": "UsageApp.period",
        "by": "UsageApp.by",
        "every": "UsageApp.every",
        "zone": "UsageApp.zone",
        "format": "UsageApp.format",
        "output": "UsageApp.output",
    }
    since = Unicode("", help="First day or moment (2026-12-01, 2026-12-01T08:00).").tag(config=True)
    until = Unicode("", help="End: a day or moment that is not in it; empty for now.").tag(config=True)
    period = Enum(_PERIODS, "", help="A calendar period in place of --since and --until.").tag(config=True)
    by = Unicode(
        "owner,group,model,isolation", help="Split by some of owner, group, kind, model, isolation."
    ).tag(config=True)
    every = Enum(("all", "day", "week", "month"), "all", help="Split into periods.").tag(config=True)
    zone = Unicode("UTC", help="Time zone in which days begin (Europe/Berlin).").tag(config=True)
    format = Enum(_FORMATS, "table", help="How it is written.").tag(config=True)
    output = Unicode("", help="File to write; empty for this terminal.").tag(config=True)

    def run(self) -> int:
        """Ask the pool, and write what it says."""
        from jupyter_gpupool.client.discovery import find_pool
        from jupyter_gpupool.client.sync import PoolClient

        client = PoolClient(find_pool(autostart=False))
        try:
            rows = client.usage_report(**self.query())
        finally:
            client.close()
        self._write(rows)
        return 0

    def query(self, now: datetime | None = None) -> dict[str, str]:
        """Return what is asked of the pool."""
        from jupyter_gpupool.service.usage_report import zone_of

        since, until = self.since, self.until
        if self.period:
            zone = zone_of(self.zone)
            since, until = _calendar(self.period, now or datetime.now(zone), zone)
        asked = {"since": since, "until": until, "every": self.every, "zone": self.zone}
        return {"by": self.by, **{name: value for name, value in asked.items() if value}}

    def _write(self, rows: list[UsageRowDoc]) -> None:
        if self.format == "parquet":
            write_parquet(rows, self.output)
            return
        if not self.output:
            write_text(rows, self.format, sys.stdout)
            return
        try:
            with Path(self.output).open("w", encoding="utf-8", newline="") as file:
                write_text(rows, self.format, file)
        except OSError as error:
            raise CannotWrite(f"{self.output} cannot be written: {error.strerror}.") from error


def _calendar(period: str, now: datetime, zone: tzinfo) -> tuple[str, str]:
    """Return the first and last moment of a calendar period."""
    day = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    week, month = day - timedelta(days=day.weekday()), day.replace(day=1)
    begins, ends = {
        "today": (day, None),
        "yesterday": (day - timedelta(days=1), day),
        "week": (week, None),
        "last-week": (week - timedelta(days=7), week),
        "month": (month, None),
        "last-month": ((month - timedelta(days=1)).replace(day=1), month),
    }[period]
    return begins.isoformat(), ends.isoformat() if ends else ""


def records(rows: list[UsageRowDoc]) -> list[dict[str, Any]]:
    """Return rows as they are written: hours, and what of them was used."""
    return [
        {
            **{name: getattr(row, name) for name in _words(rows)},
            "held_device_hours": round(row.held_device_seconds / 3600, 6),
            "measured_device_hours": round(row.measured_device_seconds / 3600, 6),
            "used_device_hours": round(row.busy_device_seconds / 3600, 6),
            "unused_device_hours": round((row.measured_device_seconds - row.busy_device_seconds) / 3600, 6),
            "leases": row.leases,
            "price": row.price,
        }
        for row in rows
    ]


def _words(rows: list[UsageRowDoc]) -> list[str]:
    """Return the columns that say of what a row is; without any row all of them."""
    names = ["period", "owner", "group", "kind", "model", "isolation"]
    return [name for name in names if not rows or any(getattr(row, name) for row in rows)]


def write_text(rows: list[UsageRowDoc], form: str, file: IO[str]) -> None:
    """Write a report as a table, CSV or JSON."""
    found = records(rows)
    if form == "json":
        from jupyter_gpupool.protocol.codec import encode

        file.write(encode(found).decode() + "\n")
    elif form == "csv":
        numbers = ["held_device_hours", "measured_device_hours", "used_device_hours", "unused_device_hours"]
        writer = csv.DictWriter(file, [*_words(rows), *numbers, "leases", "price"])
        writer.writeheader()
        writer.writerows({key: _harmless(value) for key, value in record.items()} for record in found)
    else:
        _print_table(found, file)


def _harmless(value: Any) -> Any:
    """Keep a spreadsheet from taking a name for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def _print_table(found: list[dict[str, Any]], file: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(file=file, markup=False)
    if not found:
        console.print("Nothing was held in this time.")
        return
    table = Table(box=None, pad_edge=False)
    for name, value in found[0].items():
        number = not isinstance(value, str)
        title = name.removesuffix("_device_hours") + (" h" if name.endswith("_hours") else "")
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for record in found:
        cells = (
            f"{it:.2f}" if isinstance(it, float) else "–" if it is None else it for it in record.values()
        )
        table.add_row(*map(str, cells))
    console.print(table)


def write_parquet(rows: list[UsageRowDoc], output: str) -> None:
    """Write a report as a Parquet file.

    Raises
    ------
    CannotWrite
        If no file is named, it cannot be written, or pyarrow is missing.
    """
    if not output:
        raise CannotWrite("Parquet is no text for a terminal.", hint="Name a file: --output usage.parquet.")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CannotWrite(
            "Parquet needs pyarrow, which is not installed here.",
            hint='Run `pip install "jupyter_gpupool[parquet]"`, or use --format csv.',
        ) from None
    try:
        parquet.write_table(pyarrow.Table.from_pylist(records(rows)), output)
    except OSError as error:
        raise CannotWrite(f"{output} cannot be written: {error}.") from error
