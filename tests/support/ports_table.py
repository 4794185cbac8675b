"""The documented table of ports, and whether what listens is what it says.

Rule of this module: the page is the contract; what it has and nobody does is a fault, and so is a socket that
no line of it allows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.sockets import Listening

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
_HEAD = "| who listens | port | address | how many |"
_NUMBERS = {"one": 1, "five": 5}
#: How a process is known by its command line.
_ROLES = {
    "kernel": "ipykernel_launcher",
    "worker": "jupyter_gpupool.sessions.worker",
    "service": "jupyter_gpupool serve",
    "agent": "jupyter_gpupool agent",
}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    who : str
        Kind of process.
    port : int
        0 for any.
    loopback : bool
        Whether it is for this machine only.
    number : int
        How many there are.
    each : str
        For each of what; empty for each process.
    listen : bool
        Whether it is there with ``--listen`` only.
    """

    who: str
    port: int
    loopback: bool
    number: int
    each: str
    listen: bool


def documented() -> list[Row]:
    """Read the table."""
    _, found, rest = PAGE.read_text().partition(_HEAD)
    assert found, f"{PAGE} has no table of ports"
    table, _, _ = rest.partition("\n\n")
    return [_row([it.strip() for it in line.strip("|").split("|")]) for line in table.splitlines()[2:]]


def _row(cells: list[str]) -> Row:
    who, port, address, many = cells[:4]
    assert who in _ROLES, f"nobody knows what {who!r} is"
    assert address in {"`--listen`", "the node's", "loopback"}, f"nobody knows where {address!r} is"
    number = re.fullmatch(r"(\w+)(?: for each ([\w ]+))?( with `--listen`)?", many)
    assert number, f"nobody knows how many {many!r} is"
    numbered = re.match(r"\d+", port)
    return Row(
        who,
        int(numbered[0]) if numbered else 0,
        address == "loopback",
        _NUMBERS[number[1]],
        number[2] or "",
        bool(number[3]),
    )


def role(command: str) -> str:
    """Return what a process is, by its command line; empty for what is not of the pool."""
    return next((who for who, part in _ROLES.items() if part in command), "")


def places(who: str, clusters: int, *, alone: bool = False) -> Counter[tuple[int, bool]]:
    """Return how often each port, and loopback or not, is documented for one process.

    Parameters
    ----------
    who : str
        What it is.
    clusters : int
        How many session clusters it has.
    alone : bool
        Whether its pool has no ``--listen``: everything is on loopback then, with any port.
    """
    found: Counter[tuple[int, bool]] = Counter()
    for row in documented():
        if row.who == who and not (alone and row.listen):
            times = clusters if row.each == "session cluster" else 1
            found[(0, True) if alone else (row.port, row.loopback)] += row.number * times
    return +found


def heard(sockets: Iterable[Listening], fixed: Iterable[int]) -> Counter[tuple[int, bool]]:
    """Return how often a process really listens, in the same words; ``fixed`` ports keep their number."""
    numbers = set(fixed)
    return Counter((it.port if it.port in numbers else 0, it.on_loopback) for it in sockets)
