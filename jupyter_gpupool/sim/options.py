"""What a person writes to have something simulated, read into one value.

Rule of this module: whatever is wrong is said in a sentence that names the option, what was written, and what
could have been; nothing is opened here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.quotas import Quotas
from jupyter_gpupool.core.reservations import Reserved
from jupyter_gpupool.core.shares import parse_compute
from jupyter_gpupool.sim.compare import USUAL
from jupyter_gpupool.sim.notebook_class import IDLE_SESSIONS, SIZES


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is simulated.

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
    begins : str
        The day on which it begins, "2026-12-07", UTC; empty for a Monday.
    pinned : str
        Names of owners who pin their leases, with * for any letters; separated by commas.
    policy : str
        The settings that are played.
    compare : str
        What is changed of them for a second run beside it; empty for none.
    as_json : bool
        Whether JSON is printed instead of a table.
    html : str
        Where the report is written; empty for nowhere.
    quotas : Quotas
        What owners and groups may have; names of owners may have * for any letters.
    reservations : tuple of Reserved
        What is reserved at some times.
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
    begins: str = ""
    pinned: str = ""
    policy: str = USUAL
    compare: str = ""
    as_json: bool = False
    html: str = ""
    quotas: Quotas = field(default_factory=Quotas)
    reservations: tuple[Reserved, ...] = ()


#: Options that are text.
TEXTS = ("pool", "sizes", "journal", "openb", "begins", "pinned", "policy", "compare", "html")
#: Options that are numbers, how they are read, and what could have been written.
_NUMBERS: Mapping[str, tuple[Callable[[str], float], str]] = {
    "users": (int, "a whole number of users, as 200"),
    "seed": (int, "a whole number, as 3"),
    "days": (float, "a number of days without a unit, as 5 or 0.5"),
    "idle_sessions": (float, "a part of all sessions, from 0 to 1, as 0.7"),
    "load": (float, "how many times as fast everything is asked for, as 1 or 2.5"),
}
#: All of them, as they are named in a scenario and, with - instead of _, on a command line.
NAMES = (*TEXTS, *_NUMBERS)


def read_options(written: Mapping[str, Any], **more: Any) -> Options:
    """Read options as a person wrote them, text or numbers.

    Parameters
    ----------
    written : mapping of str to object
        By name; the defaults hold for what is missing. An empty policy is the usual one.
    **more
        Further fields of `Options`, as they are.

    Raises
    ------
    InvalidValue
        If a number is none.
    """
    found: dict[str, Any] = {name: str(written[name]).strip() for name in TEXTS if name in written}
    if not found.get("policy", USUAL):
        del found["policy"]
    for name in _NUMBERS:
        if name in written:
            found[name] = _number(name, written[name])
    return Options(**found, **more)


def _number(name: str, value: object) -> float:
    read, form = _NUMBERS[name]
    text = str(value).strip()
    try:
        number = read(text) if text.isascii() else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        option = name.replace("_", "-")
        raise InvalidValue(f"--{option} is “{text[:40]}”; it must be {form}.")
    return number


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


def parse_begin(text: str) -> int | None:
    """Read the day on which a simulation begins: UTC, milliseconds since the epoch; None for no matter which.

    Raises
    ------
    InvalidValue
        If it is no day.
    """
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if day.year < 1970 or day.year > 9000:
            raise ValueError(text)
    except ValueError:
        raise InvalidValue(f"--begins is “{text[:40]}”; it must be a day, as 2026-12-07.") from None
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
