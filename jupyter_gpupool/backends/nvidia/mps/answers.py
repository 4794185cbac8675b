"""What the control program says, read.

Rule of this module: pure; what cannot be read is refused with what was said, and never taken for something
near it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from jupyter_gpupool.backends.nvidia.mps.errors import MPSUnreadable

#: The unit of MPS's memory limits, bytes.
MIB = 2**20
#: How much of an unreadable answer is shown.
_SHOWN_CHARACTERS = 80
_LIMIT = re.compile(r"(\d+)\s*([GM])i?B?\s*$", re.ASCII | re.IGNORECASE)
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)\s*%?\s*$", re.ASCII)


class ServerStatus(Enum):
    """What state a server is in."""

    #: It makes its contexts on the devices.
    INITIALIZING = "INITIALIZING"
    #: It serves.
    ACTIVE = "ACTIVE"
    #: A client failed fatally: all clients on its devices have to end before it serves again.
    FAULT = "FAULT"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerState:
    """One server at one moment.

    Attributes
    ----------
    status : ServerStatus
        Its state.
    percentage : float or None
        What it lets a new client use of the threads, percent; None when it does not say.
    memory_mib : int or None
        What it lets a new client use of the GPU's memory, MiB; None for no limit.
    clients : tuple of int
        Its clients' processes.
    """

    status: ServerStatus
    percentage: float | None
    memory_mib: int | None
    clients: tuple[int, ...]


def state(answer: str, server: int) -> ServerState:
    """Read what is said of a server: its status, its two limits and its clients, in that order."""
    said = lines(answer)
    words = re.findall(r"[A-Z]+", said[0].upper()) if said else []
    status = next((each for each in ServerStatus if each.value in words), None)
    if status is None or len(said) < 2:
        raise MPSUnreadable(f"MPS said of its server {server}: {shown(answer)}.")
    # nothing is said of a limit where there is none
    limited = len(said) > 2 and _LIMIT.search(said[2]) is not None
    return ServerState(
        status=status,
        percentage=percentage(said[1]),
        memory_mib=mib(said[2]) if limited else None,
        clients=tuple(pids(said[3 if limited else 2 :])),
    )


def limits(answer: str) -> tuple[float, int | None]:
    """Read the two limits at the end of an answer: setting them may have said something before."""
    said = lines(answer)
    if len(said) < 2:
        raise MPSUnreadable(f"MPS gave as its limits: {shown(answer)}.")
    return percentage(said[-2]), mib(said[-1])


def lines(answer: str) -> list[str]:
    """Return the lines of an answer that say something."""
    return [line.strip() for line in answer.splitlines() if line.strip()]


def pids(lines: list[str]) -> list[int]:
    """Read a list of processes, one a line."""
    if not all(line.isascii() and line.isdigit() for line in lines):
        raise MPSUnreadable(f"MPS listed as processes: {shown(' '.join(lines))}.")
    return [int(line) for line in lines]


def percentage(text: str) -> float:
    """Read how much of the threads clients may use, percent."""
    match = _PERCENTAGE.search(text)
    if match is None or not 0 < float(match[1]) <= 100:
        raise MPSUnreadable(f"MPS gave as its thread percentage: {shown(text)}.")
    return float(match[1])


def mib(text: str) -> int | None:
    """Read how much memory clients may use, MiB; None for no limit, which is also written as 0."""
    match = _LIMIT.search(text)
    if match is None:
        raise MPSUnreadable(f"MPS gave as its memory limit: {shown(text)}.")
    return int(match[1]) * (1024 if match[2].upper() == "G" else 1) or None


def shown(answer: str) -> str:
    """Quote what the program said, cut, and without what a terminal would obey."""
    text = " ".join("".join(each if each.isprintable() else " " for each in answer).split())
    return f"“{text[:_SHOWN_CHARACTERS]}”" if text else "nothing"
