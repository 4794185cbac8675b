"""A simulation as a file: the options of the command, written down to be played again.

Rules of this module: the names are those of the command line; files are named as seen from the scenario; what
is wrong is said with file and line. Lists and groups of settings may be written as such.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_gpupool.cluster.written import Placed, read_placed
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.sim.options import NAMES

#: Options that name files.
_FILES = ("journal", "openb", "html", "quotas", "reservations")
_KNOWN = ("version", *NAMES, "quotas", "reservations")


class BadScenario(GPUPoolError):
    """Raised when a scenario cannot be understood. The message says where, and what is possible."""

    code = "bad_scenario"


def read_scenario(path: Path) -> dict[str, str]:
    """Read a scenario: options by name, as they would be written on a command line.

    Raises
    ------
    BadScenario
        If it cannot be read or understood.
    """
    root = read_placed(path, BadScenario)
    if root is None:
        raise BadScenario(f"The scenario {path} is empty.", hint=f"It may have {', '.join(_KNOWN)}.")
    said = root.fields("a scenario", _KNOWN)
    if "version" in said and said["version"].value != "1":
        raise said["version"].wrong(f"“version” is “{said['version'].value}”; this version reads 1.")
    found = {name: _text(name, item) for name, item in said.items() if name != "version"}
    for name in _FILES:
        if found.get(name):
            found[name] = str(path.parent / found[name])
    if found.get("pool", "").startswith("openb:"):
        found["pool"] = f"openb:{path.parent / found['pool'].removeprefix('openb:')}"
    return found


def _text(name: str, item: Placed) -> str:
    """Write a value as on a command line: lists with commas, settings as name=value, sizes as 0.25:7."""
    if isinstance(item.value, list):
        return ("; " if name == "pool" else ",").join(_scalar(name, it) for it in item.value)
    if isinstance(item.value, dict):
        between = ":" if name == "sizes" else "="
        return ",".join(f"{key}{between}{_scalar(name, it)}" for key, it in item.value.items())
    return _scalar(name, item)


def _scalar(name: str, item: Placed) -> str:
    if not isinstance(item.value, str):
        raise item.wrong(f"“{name}” must be written in one line, or as a list or settings of plain values.")
    return item.value.strip()
