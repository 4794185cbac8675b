"""What people and programs want of a pool, as values: who comes when, and what they do then.

Rules of this module: a workload is made before it is played, so that all policies see the same; it knows
nothing of pools and policies.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import Want

#: Milliseconds in a minute, an hour and a day.
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Visit:
    """One session of somebody: it asks for a share when it begins, and gives it back when it ends.

    Attributes
    ----------
    after_ms : int
        How long after the visit before it ended (the first one: after the beginning of the simulation).
    want : Want
        What it asks for.
    cells : tuple of (int, int)
        For each cell, the pause before it and how long it runs once it has its share, milliseconds.
    stay_ms : int
        For how long the session stays open after its last cell.
    patience_ms : int or None
        How long it waits in the queue; None for ever.
    pinned : bool
        Whether its owner pins what it gets, so that it is not taken back as far as quotas allow that.
    """

    after_ms: int
    want: Want
    cells: tuple[tuple[int, int], ...]
    stay_ms: int = 0
    patience_ms: int | None = None
    pinned: bool = False

    @property
    def length_ms(self) -> int:
        """How long it lasts where nobody has to wait."""
        return sum(pause + runs for pause, runs in self.cells) + self.stay_ms


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whose visits follow each other; an owner can be several of them at a time."""

    owner: str
    visits: tuple[Visit, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Everybody who comes, and for how long that is looked at.

    Attributes
    ----------
    name : str
        What a person calls it.
    people : tuple of Person
        Who comes.
    horizon_ms : int
        What is asked for before this time is measured; afterwards nobody new comes.
    notes : tuple of str
        What a reader must know of it.
    """

    name: str
    people: tuple[Person, ...]
    horizon_ms: int
    notes: tuple[str, ...] = ()

    def sizes(self, kind: DeviceKind | None = None) -> dict[int, int]:
        """Return how often each share size is asked for, thousandths of a device."""
        found: dict[int, int] = {}
        for person in self.people:
            for visit in person.visits:
                if kind is None or visit.want.kind in (None, kind):
                    size = visit.want.compute_milli
                    found[size] = found.get(size, 0) + visit.want.count
        return found


def faster(workload: Workload, load: float) -> Workload:
    """Let everything be asked for ``load`` times as fast; how long it is used stays.

    Raises
    ------
    InvalidValue
        If the load is not a positive number.
    """
    if not 0 < load < 10_000:
        raise InvalidValue(f"A load of {load:g} is out of range.", hint="1 plays a workload as it is.")
    if load == 1:
        return workload
    people = tuple(
        replace(person, visits=tuple(replace(it, after_ms=round(it.after_ms / load)) for it in person.visits))
        for person in workload.people
    )
    horizon = max(1, round(workload.horizon_ms / load))
    return replace(
        workload, people=people, horizon_ms=horizon, name=f"{workload.name}, {load:g} times as fast"
    )


def once(owner: str, at_ms: int, want: Want, runs_ms: int, patience_ms: int | None = None) -> Person:
    """Return somebody who asks for a share once, and uses it all the time until it ends."""
    return Person(owner, (Visit(at_ms, want, ((0, max(1, runs_ms)),), patience_ms=patience_ms),))


def batch(name: str, people: Iterable[Person], notes: Iterable[str] = ()) -> Workload:
    """Make a workload of people who come once; it is looked at until the last one comes."""
    everybody = tuple(sorted(people, key=lambda it: it.visits[0].after_ms))
    if not everybody:
        raise InvalidValue(f"{name} has no requests that could be played.")
    horizon = max(1, everybody[-1].visits[0].after_ms)
    return Workload(name=name, people=everybody, horizon_ms=horizon, notes=tuple(notes))


def openb_workload(path: Path) -> Workload:
    """Read a pod list of the openb traces with its creation and deletion times.

    Raises
    ------
    InvalidValue
        If it cannot be read, or has no times.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            people, without = _pods(csv.DictReader(file), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue(f"The trace {path} cannot be read: {error}.") from error
    return batch(
        path.name,
        people,
        (
            f"{without} requests without a GPU, or without an end, are left out.",
            "Requests take the cores and main memory beside their shares, and insist on the models, that the "
            "trace says.",
            "The trace names no users: the class of service stands for the owner.",
            "How long a share is used is the time from its start to its deletion in the trace.",
        ),
    )


def _pods(rows: csv.DictReader[str], path: Path) -> tuple[list[Person], int]:
    needed = {"num_gpu", "gpu_milli", "creation_time", "deletion_time"}
    if missing := needed - set(rows.fieldnames or ()):
        raise InvalidValue(
            f"{path} is not a list of the openb traces: it has no {', '.join(sorted(missing))}."
        )
    people, without, first = [], 0, None
    for row in rows:
        try:
            person = _pod(row)
        except ValueError as error:
            raise InvalidValue(f"{path}, line {rows.line_num}: {error}.") from error
        if person is None:
            without += 1
        else:
            at_ms = person.visits[0].after_ms
            first = at_ms if first is None else min(first, at_ms)
            people.append(person)
    return [_earlier(it, first or 0) for it in people], without


def _pod(row: dict[str, str]) -> Person | None:
    count = int(row["num_gpu"])
    if not count or not row["deletion_time"]:
        return None
    created = float(row["creation_time"])
    started = float(row.get("scheduled_time") or created)
    want = Want(
        compute_milli=min(1000, int(row["gpu_milli"])),
        kind=DeviceKind.CUDA,
        count=count,
        host_cpu_milli=int(row.get("cpu_milli") or 0),
        host_memory_bytes=int(row.get("memory_mib") or 0) * 2**20,
        model=row.get("gpu_spec") or "",
    )
    runs_ms = round(1000 * (float(row["deletion_time"]) - started))
    return once((row.get("qos") or "all").lower(), round(1000 * created), want, runs_ms)


def _earlier(person: Person, by_ms: int) -> Person:
    visit = person.visits[0]
    return replace(person, visits=(replace(visit, after_ms=visit.after_ms - by_ms),))
