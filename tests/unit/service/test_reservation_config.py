"""The file of reservations: what it says, and where it is wrong."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.quotas import Group, Quotas
from jupyter_gpupool.service.reservation_config import (
    BadReservations,
    describe_reservations,
    read_reservations,
)

QUOTAS = Quotas(groups=(Group(name="course", owners=frozenset({"ann"})),))
GOOD = """\
version: 1
time_zone: Europe/Berlin
reservations:
  - name: Deep learning class
    group: course
    devices: 4
    every: [tuesday, thursday]
    from: 09:00
    to: 11:00
    lead: 4h
  - name: Demo
    owners: [bob]
    kind: cpu
    devices: 1
    on: 2026-12-08
    from: "18:30"
    to: "24:00"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "reservations.yaml"
    path.write_text(text)
    return path


def test_a_file_is_read_as_it_is_meant(tmp_path: Path) -> None:
    weekly, once = read_reservations(written(tmp_path, GOOD), QUOTAS)
    assert (weekly.name, weekly.group, weekly.devices) == ("Deep learning class", "course", 4)
    assert (weekly.weekdays, weekly.from_minute, weekly.to_minute) == (frozenset({1, 3}), 540, 660)
    assert weekly.lead_ms == 4 * 3_600_000
    assert (once.owners, once.kind, once.day) == (frozenset({"bob"}), DeviceKind.CPU, date(2026, 12, 8))
    assert once.to_minute == 24 * 60
    shown = dict(describe_reservations((weekly, once)))
    assert shown["Deep learning class"] == (
        "4 cuda devices for group course on Tuesday and Thursday from 09:00 to 11:00 (Europe/Berlin)"
    )


def test_an_empty_file_reserves_nothing(tmp_path: Path) -> None:
    assert read_reservations(written(tmp_path, ""), QUOTAS) == ()
    assert read_reservations(written(tmp_path, "version: 1\n"), QUOTAS) == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 2", "line 1: “version” is “2”"),
        ("Europe/Berlin", "Europe/Nowhere", "line 2: there is no time zone “Europe/Nowhere”"),
        ("group: course", "group: chess", "line 5: there is no group “chess”; there are course"),
        ("    group: course\n", "", "line 4: Reservation “Deep learning class” is of nothing, or for nobody"),
        ("devices: 4", "devices: 0.5", "line 6: “devices” is “0.5”"),
        ("devices: 4", "devices: 0", "line 6: “devices” is “0”"),
        ("tuesday", "tusday", "line 7: “tusday” is no day of the week"),
        ("from: 09:00", "from: 9 o'clock", "line 8: “9 o'clock” is no time of the day"),
        ("from: 09:00", "from: 11:00", "line 4: Reservation “Deep learning class” must begin before it ends"),
        ("    to: 11:00\n", "", "line 4: it has no “to”"),
        ("lead: 4h", "lead: soon", "line 10: “soon” is not a duration"),
        ("kind: cpu", "kind: tpu", "line 13: “kind” is “tpu”"),
        ("on: 2026-12-08", "on: 2026-13-08", "line 15: “2026-13-08” is no day"),
        ("on: 2026-12-08", "when: never", "line 15: “when” is not known"),
        (
            "    on: 2026-12-08\n",
            "",
            "line 11: Reservation “Demo” is either on one day, or on days of each week",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(BadReservations) as caught:
        read_reservations(written(tmp_path, GOOD.replace(old, new, 1)), QUOTAS)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadReservations, match=r"none\.yaml cannot be read"):
        read_reservations(tmp_path / "none.yaml", QUOTAS)
