"""Whether our package is installed where a kernel runs.

Rules of this module: it looks at paths and starts nothing; what it cannot tell it calls not installed, which
only means that ``%load_ext jupyter_gpupool`` has to be typed; it never raises.

It follows what Python itself does to find its packages: a ``pyvenv.cfg`` beside the interpreter, *as it is
named* (a link is not followed), makes a virtual environment; otherwise the link is followed, and the prefix
is the folder above ``bin``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

#: Modules that are an ipykernel when they are run with ``-m``.
_KERNEL_MODULES = frozenset({"ipykernel", "ipykernel_launcher"})
#: Options of the interpreter that take the next word as their value.
_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_PYTHON = re.compile(r"pythonw?(\d+(?:\.\d+)?t?)?(?:\.exe)?", re.IGNORECASE)
_VERSION = re.compile(r"python(\d+\.\d+t?)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """What a kernel's command line tells of the environment it runs in.

    Attributes
    ----------
    ipykernel : bool
        True when the command starts an ipykernel directly.
    interpreter : str
        Path of its Python as it was named; empty when that cannot be told (not Python, a wrapper, a shim).
    installed : bool
        True when our distribution lies where that interpreter looks for packages.
    """

    ipykernel: bool
    interpreter: str
    installed: bool

    @property
    def install_command(self) -> str:
        """What a person types to install our package there; empty when it is, or nobody can tell where."""
        if self.installed or not self.interpreter:
            return ""
        return f"{shlex.quote(self.interpreter)} -m pip install jupyter_gpupool"


def look(argv: Sequence[str], env: Mapping[str, str]) -> Environment:
    """Look at the environment of a kernel that starts with ``argv`` under ``env``."""
    interpreter = _interpreter(argv[0], env) if is_ipykernel(argv) else None
    if interpreter is None:
        return Environment(ipykernel=False, interpreter="", installed=False)
    places = _own_places() if interpreter == Path(sys.executable) else _places(interpreter, env)
    return Environment(
        ipykernel=True,
        interpreter=str(interpreter),
        installed=any(_has_distribution(place) for place in places),
    )


def is_ipykernel(argv: Sequence[str]) -> bool:
    """Tell whether ``argv`` is a Python that runs ipykernel, and not something that starts one elsewhere."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, "") in _KERNEL_MODULES
        if word.startswith("-m"):
            return word[2:] in _KERNEL_MODULES
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return Path(word).name == "ipykernel_launcher.py"
    return False


def _interpreter(word: str, env: Mapping[str, str]) -> Path | None:
    """Find the interpreter that ``word`` starts; None when it is not a Python binary."""
    found = shutil.which(word, path=env.get("PATH"))
    if found is None or not _PYTHON.fullmatch(Path(found).name):
        return None
    path = Path(found).absolute()
    try:
        with path.open("rb") as file:
            is_script = file.read(2) == b"#!"  # a shim (pyenv, asdf): only running it tells what it runs
    except OSError:
        return None
    return None if is_script else path


def _own_places() -> tuple[Path, ...]:
    """Return where this process's interpreter looks for packages: it need not be guessed."""
    user = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    return tuple(Path(place) for place in (*site.getsitepackages(), *user))


def _places(interpreter: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where an interpreter looks for packages, worked out from its path."""
    settings = _venv_settings(interpreter)
    if settings is None:
        return _base_places(Path(os.path.realpath(interpreter)), env)
    own = tuple(_below(interpreter.parent.parent, settings.get("version", "")))
    if settings.get("include-system-site-packages", "").lower() != "true":
        return own
    base = Path(settings.get("home", "")) / interpreter.name
    return own + _base_places(Path(os.path.realpath(base)), env)


def _base_places(interpreter: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where an interpreter outside of virtual environments looks; ``interpreter`` is no link."""
    named = _VERSION.search(interpreter.name)
    version = named[1] if named else ""
    places = tuple(_below(interpreter.parent.parent, version))
    if env.get("PYTHONNOUSERSITE"):
        return places
    home = env.get("PYTHONUSERBASE") or str(Path(env.get("HOME") or Path.home()) / ".local")
    return places + tuple(_below(Path(home), version))


def _below(prefix: Path, version: str) -> Iterator[Path]:
    """Yield the package directories under a prefix: the usual, Debian's, Fedora's and Windows' layout."""
    short = ".".join(version.split(".")[:2]) or "3*"
    for pattern in (
        f"lib/python{short}/site-packages",
        f"lib64/python{short}/site-packages",
        f"local/lib/python{short}/dist-packages",
        "lib/python3/dist-packages",
        "Lib/site-packages",
    ):
        yield from prefix.glob(pattern)


def _venv_settings(interpreter: Path) -> dict[str, str] | None:
    """Read the ``pyvenv.cfg`` of an interpreter; None when it has none."""
    for folder in (interpreter.parent, interpreter.parent.parent):
        try:
            text = (folder / "pyvenv.cfg").read_text("utf-8", "replace")
        except OSError:
            continue
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
        return {"version": settings.get("version_info", ""), **settings}
    return None


def _has_distribution(place: Path) -> bool:
    """Tell whether our distribution lies in a package directory."""
    try:
        return _scan(place, place.stat().st_mtime_ns)
    except OSError:
        return False


@lru_cache(maxsize=256)
def _scan(place: Path, mtime_ns: int) -> bool:
    """Scan a package directory; cached until something is installed or removed there (its mtime)."""
    return any(
        entry.name.startswith("jupyter_gpupool-") and entry.suffix == ".dist-info"
        for entry in place.iterdir()
    )
