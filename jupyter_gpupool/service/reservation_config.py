"""Reservations as an administrator writes them: a YAML file.

Rule of this module: everything is checked when the service starts, and an error says where it is, with file
and line. docs/scheduling.md explains the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from jupyter_gpupool.cluster.written import Placed, read_placed, read_placed_text
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError, InvalidValue
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.core.reservations import DAY_MINUTES, WEEKDAYS, Reserved, describe_times
from jupyter_gpupool.core.shares import MOST_DEVICES, parse_duration

_TOP = ("version", "time_zone", "reservations")
_ENTRY = ("name", "group", "owners", "kind", "devices", "every", "on", "from", "to", "lead")
_DAYS = {day.lower(): number for number, day in enumerate(WEEKDAYS)}


class BadReservations(GPUPoolError):
    """Raised when a file of reservations cannot be understood. The message says where, and what would do."""

    code = "bad_reservations"


def read_reservations(path: Path, quotas: Quotas) -> tuple[Reserved, ...]:
    """Read a file of reservations.

    Raises
    ------
    BadReservations
        If it cannot be read or understood, or names a group that the quotas do not have.
    """
    return _reservations(read_placed(path, BadReservations), quotas)


def reservations_of(text: str, name: str, quotas: Quotas) -> tuple[Reserved, ...]:
    """Read reservations as they stand in a file that is called so in errors.

    Raises
    ------
    BadReservations
        If they cannot be understood, or name a group that the quotas do not have.
    """
    return _reservations(read_placed_text(text, name, BadReservations), quotas)


def _reservations(root: Placed | None, quotas: Quotas) -> tuple[Reserved, ...]:
    if root is None:
        return ()
    said = root.fields("a file of reservations", _TOP)
    if "version" in said and said["version"].value != "1":
        raise said["version"].wrong(f"“version” is “{said['version'].value}”; this version reads 1.")
    zone = _zone(said["time_zone"]) if "time_zone" in said else UTC
    if "reservations" not in said:
        return ()
    return tuple(_entries(said["reservations"], zone, quotas))


def _entries(listed: Placed, zone: tzinfo, quotas: Quotas) -> Iterator[Reserved]:
    for entry in listed.items("“reservations”"):
        said = entry.fields("a reservation", _ENTRY)
        for name in ("name", "devices", "from", "to"):
            if name not in said:
                raise entry.wrong(f"it has no “{name}”.")
        try:
            yield Reserved(
                name=_text(said["name"], "name"),
                devices=_number(said["devices"]),
                kind=_kind(said["kind"]) if "kind" in said else DeviceKind.CUDA,
                group=_group(said["group"], quotas) if "group" in said else "",
                owners=_owners(said),
                weekdays=frozenset(_weekdays(said["every"])) if "every" in said else frozenset(),
                day=_day(said["on"]) if "on" in said else None,
                from_minute=_minute(said["from"]),
                to_minute=_minute(said["to"]),
                zone=zone,
                **_lead(said),
            )
        except InvalidValue as error:
            raise entry.wrong(error.message) from error


def _text(item: Placed, name: str) -> str:
    if not isinstance(item.value, str) or not item.value.strip():
        raise item.wrong(f"“{name}” must be a name.")
    return item.value.strip()


def _number(item: Placed) -> int:
    text = str(item.value)
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII) or not 1 <= int(text) <= MOST_DEVICES:
        raise item.wrong(f"“devices” is “{item.value}”; it must be a whole number from 1 to {MOST_DEVICES}.")
    return int(text)


def _kind(item: Placed) -> DeviceKind:
    kinds = [kind.value for kind in DeviceKind]
    if item.value not in kinds:
        raise item.wrong(f"“kind” is “{item.value}”; there are {', '.join(kinds)}.")
    return DeviceKind(item.value)


def _group(item: Placed, quotas: Quotas) -> str:
    name = _text(item, "group")
    if name not in quotas.by_name:
        known = ", ".join(sorted(quotas.by_name)) or "none: PoolService.quotas_file says which there are"
        raise item.wrong(f"there is no group “{name}”; there are {known}.")
    return name


def _owners(said: Mapping[str, Placed]) -> frozenset[str]:
    listed = said["owners"].items("“owners”") if "owners" in said else ()
    return frozenset(_text(it, "owners") for it in listed)


def _weekdays(item: Placed) -> Iterator[int]:
    days = [item] if isinstance(item.value, str) else list(item.items("“every”"))
    for day in days:
        number = _DAYS.get(str(day.value).lower())
        if number is None:
            raise day.wrong(f"“{day.value}” is no day of the week; write one as tuesday.")
        yield number


def _day(item: Placed) -> date:
    try:
        return date.fromisoformat(str(item.value))
    except ValueError:
        raise item.wrong(f"“{item.value}” is no day; write one as 2026-12-08.") from None


def _minute(item: Placed) -> int:
    match = re.fullmatch(r"(\d{1,2}):(\d{2})", str(item.value), re.ASCII)
    minute = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else DAY_MINUTES + 1
    if minute > DAY_MINUTES:
        raise item.wrong(f"“{item.value}” is no time of the day; write one as 09:00, and 24:00 for its end.")
    return minute


def _lead(said: Mapping[str, Placed]) -> dict[str, int]:
    if "lead" not in said:
        return {}
    try:
        return {"lead_ms": round(parse_duration(str(said["lead"].value)) * 1000)}
    except InvalidValue as error:
        raise said["lead"].wrong(str(error)) from error


def _zone(item: Placed) -> ZoneInfo:
    try:
        return ZoneInfo(str(item.value))
    except (OSError, ValueError, KeyError) as error:  # whatever zoneinfo raises of names that are none
        what = f"there is no time zone “{item.value}” on this machine; write one as Europe/Berlin."
        raise item.wrong(what) from error


def describe_reservations(reservations: tuple[Reserved, ...]) -> Iterator[tuple[str, str]]:
    """Yield what is reserved for what, for a person."""
    for it in reservations:
        whom = [f"group {it.group}"] if it.group else []
        whom += sorted(it.owners)
        what = f"{it.devices} {it.kind.value} devices for {', '.join(whom)} {describe_times(it)}"
        yield it.name, what
