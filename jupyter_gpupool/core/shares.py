"""How people write shares and memory sizes, and the exact integers they mean.

Rule of this module: text goes in, integers come out; a float never reaches the ledger. Every error shows
valid forms.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

from jupyter_gpupool.core.errors import InvalidValue

#: Thousandths of one whole device.
WHOLE_MILLI = 1000

#: Most devices that one request may ask for.
MOST_DEVICES = 1024

_SHARE_FORMS = "Write a share as 0.25, 1/4, 25% or 250m (at most 1, at least 0.001)."
_SHARES_FORMS = (
    "Write a share as 0.25, 1/4, 25% or 250m, one of several devices as 0.5 x4, whole devices as 2."
)
_COUNT_FORMS = f"Write how many devices as x2 to x{MOST_DEVICES}."
_MEMORY_FORMS = "Write a memory size as 8GiB, 512MiB or 1.5GB."
_CORES_FORMS = "Write a number of cores as 4 or 0.5."
_DURATION_FORMS = "Write a duration as 90s, 2m, 1h30m or 2h."

_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_NUMBER = r"\d{1,30}(?:\.\d{1,30})?|\.\d{1,30}"
_MEMORY = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(
    r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,3})?)s)?", re.ASCII
)


def _shown(value: object) -> str:
    """Quote what the user wrote, cut to a readable length."""
    text = str(value)
    return f"“{text[:40]}…”" if len(text) > 40 else f"“{text}”"


def _fraction(text: str) -> Fraction | None:
    """Read ``0.25``, ``1/4``, ``25%`` or ``250m`` as an exact fraction; None if it is none of them."""
    scale = Fraction(1)
    if text.endswith("%"):
        text, scale = text[:-1].rstrip(), Fraction(1, 100)
    elif text.endswith("m"):
        text, scale = text[:-1], Fraction(1, 1000)
    if re.fullmatch(r"\d{1,6}/\d{1,6}", text, re.ASCII) and scale == 1:
        above, below = (int(part) for part in text.split("/"))
        return Fraction(above, below) if below else None
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return Fraction(Decimal(text)) * scale
    return None


def parse_compute(value: str | float) -> int:
    """Read a share of one device's compute.

    Parameters
    ----------
    value : str or int or float
        ``0.25``, ``"1/4"``, ``"25%"`` or ``"250m"``.

    Returns
    -------
    int
        Thousandths of a device, 1 to 1000. What is not a whole number of thousandths is rounded down
        (``1/3`` is 333): nobody gets more than was asked for.

    Raises
    ------
    InvalidValue
        If it is not a share, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue(f"{_shown(value)} is not a share.", hint=_SHARE_FORMS)
    text = value.strip() if isinstance(value, str) else _exact(value)
    fraction = _fraction(text)
    if fraction is None:
        raise InvalidValue(f"{_shown(value)} is not a share.", hint=_SHARE_FORMS)
    milli = int(fraction * WHOLE_MILLI)
    if milli < 1:
        raise InvalidValue(f"A share of {_shown(value)} is too small.", hint=_SHARE_FORMS)
    if fraction > 1:
        raise InvalidValue(f"A share of {_shown(value)} is more than one device.", hint=_SHARE_FORMS)
    return milli


class Shares(NamedTuple):
    """How much of how many devices.

    Attributes
    ----------
    compute_milli : int
        Thousandths of each of them.
    devices : int
        How many.
    """

    compute_milli: int
    devices: int


def parse_shares(value: str | float, count: str | int | None = None) -> Shares:
    """Read what is asked for: a share of one device, of several, or whole devices.

    Parameters
    ----------
    value : str or int or float
        A share as `parse_compute` reads it, or a number of whole devices: ``2``.
    count : str or int, optional
        Of how many devices: ``"x4"`` or ``4``.

    Returns
    -------
    Shares
        The share of each, and how many.

    Raises
    ------
    InvalidValue
        If it is neither, or out of range.
    """
    whole = _whole_devices(value)
    if whole is None or whole == 1:
        return Shares(parse_compute(value), 1 if count is None else _count(count))
    if count is not None:
        raise InvalidValue(f"{_shown(value)} means whole devices already.", hint=_SHARES_FORMS)
    if whole > MOST_DEVICES:
        hint = f"Ask for at most {MOST_DEVICES}."
        raise InvalidValue(f"{_shown(value)} devices are more than can be asked for.", hint=hint)
    return Shares(WHOLE_MILLI, whole)


def _whole_devices(value: object) -> int | None:
    """Read a number of whole devices, at least 1; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = value.strip() if isinstance(value, str) else _exact(value)
    if not re.fullmatch(_NUMBER, text, re.ASCII):
        return None
    number = Decimal(text)
    if number <= 1:
        return 1 if number == 1 else None
    if number != number.to_integral_value():
        raise InvalidValue(f"A share of {_shown(value)} is more than one device.", hint=_SHARES_FORMS)
    return int(number)


def _count(value: str | int) -> int:
    """Read of how many devices a share is."""
    text = value.strip().lower() if isinstance(value, str) else str(value)
    digits = text.removeprefix("x").removeprefix("×")
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", digits, re.ASCII):
        raise InvalidValue(f"{_shown(value)} is not a number of devices.", hint=_COUNT_FORMS)
    if not 1 <= int(digits) <= MOST_DEVICES:
        raise InvalidValue(f"{_shown(value)} is out of range for a number of devices.", hint=_COUNT_FORMS)
    return int(digits)


def _exact(value: float) -> str:
    """Write a number as plain decimal digits (no exponent), as its shortest repr means it."""
    try:
        number = Decimal(repr(value))
    except InvalidOperation:
        return str(value)
    return format(number, "f") if number.is_finite() else str(value)


def parse_memory(value: str | int) -> int:
    """Read a memory size.

    Parameters
    ----------
    value : str or int
        ``"8GiB"``, ``"512MiB"``, ``"1.5GB"``; a plain int is bytes.

    Returns
    -------
    int
        Bytes, at least 1.

    Raises
    ------
    InvalidValue
        If it is not a size, has no unit, or is out of range.
    """
    if type(value) is int:
        size = value
    else:
        match = _MEMORY.fullmatch(str(value).strip())
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise InvalidValue(f"{_shown(value)} is not a memory size.", hint=_MEMORY_FORMS)
        size = int(Fraction(Decimal(match[1])) * unit)
    if not 1 <= size < 2**60:
        raise InvalidValue(f"A memory size of {_shown(value)} is out of range.", hint=_MEMORY_FORMS)
    return size


def parse_cores(value: str | float) -> int:
    """Read a number of cores.

    Parameters
    ----------
    value : str or int or float
        ``4``, ``"0.5"``.

    Returns
    -------
    int
        Thousandths of a core, at least 1; what is less than one of them is rounded down.

    Raises
    ------
    InvalidValue
        If it is not a number of cores, or out of range.
    """
    text = value.strip() if isinstance(value, str) else _exact(value)
    if isinstance(value, bool) or not re.fullmatch(_NUMBER, text, re.ASCII):
        raise InvalidValue(f"{_shown(value)} is not a number of cores.", hint=_CORES_FORMS)
    milli = int(Decimal(text) * WHOLE_MILLI)
    if not 1 <= milli < 2**31:
        raise InvalidValue(f"{_shown(value)} cores is out of range.", hint=_CORES_FORMS)
    return milli


def parse_duration(value: str | float) -> float:
    """Read a duration.

    Parameters
    ----------
    value : str or int or float
        ``"90s"``, ``"2m"``, ``"1h30m"``, ``"2d"``; a plain number is seconds.

    Returns
    -------
    float
        Seconds, more than 0 and at most 366 days.

    Raises
    ------
    InvalidValue
        If it is not a duration, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue(f"{_shown(value)} is not a duration.", hint=_DURATION_FORMS)
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None or not any(match.groups()):
            raise InvalidValue(f"{_shown(value)} is not a duration.", hint=_DURATION_FORMS)
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    else:
        total = float(value)
    if not 0 < total <= 366 * 86400:
        raise InvalidValue(f"A duration of {_shown(value)} is out of range.", hint=_DURATION_FORMS)
    return total


def proportional_memory(compute_milli: int, memory_bytes: int) -> int:
    """Return the same fraction of a device's memory as of its compute, rounded down, bytes."""
    return memory_bytes * compute_milli // WHOLE_MILLI


def format_compute(milli: int) -> str:
    """Write thousandths of a device as people do: ``250`` is "0.25"."""
    text = f"{milli // WHOLE_MILLI}.{milli % WHOLE_MILLI:03d}".rstrip("0").rstrip(".")
    return text or "0"


def format_memory(size: int | None) -> str:
    """Write bytes as people do ("2.0 GiB"); "unknown" for None."""
    if size is None:
        return "unknown"
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def format_duration(seconds: float) -> str:
    """Write a duration as people do: "8 s", "4 min", "2 h 5 min"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 and whole % 60 else f"{whole // 60} min"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
