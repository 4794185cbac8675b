"""Options of libraries and of Python: what the user has set is set again.

Rules of this module: a library that is not imported has no options; backends, devices and numbers of threads
belong to the machine.
"""

from __future__ import annotations

import decimal
import gc
import importlib
import locale
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo
from jupyter_gpupool.state.process.settings import Settings
from jupyter_gpupool.state.process.torch_options import torch_settings

_NAME = "options"


def _pandas() -> list[Settings]:
    config = importlib.import_module("pandas._config.config")

    def keys() -> list[str]:
        return [key for key in config._registered_options if key not in config._deprecated_options]

    def write(key: str, value: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config.set_option(key, value)

    return [
        Settings(
            name="pandas.options",
            read=lambda: {key: config.get_option(key) for key in keys()},
            defaults=lambda: {key: config._registered_options[key].defval for key in keys()},
            write=write,
        )
    ]


#: As numpy begins; what a version does not have is passed over.
_NUMPY_PRINT: dict[str, Any] = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "formatter": None,
    "legacy": False,
    "override_repr": None,
}
_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _numpy() -> list[Settings]:
    numpy: Any = importlib.import_module("numpy")

    def call(key: str, value: Any) -> None:
        numpy.seterrcall(value) if key == "call" else numpy.setbufsize(value)

    return [
        Settings(
            name="numpy.get_printoptions()",
            read=numpy.get_printoptions,
            defaults=lambda: _NUMPY_PRINT,
            write=lambda key, value: numpy.set_printoptions(**{key: value}),
        ),
        Settings(
            name="numpy.geterr()",
            read=numpy.geterr,
            defaults=lambda: _NUMPY_ERRORS,
            write=lambda key, value: numpy.seterr(**{key: value}),
        ),
        Settings(
            name="numpy",
            read=lambda: {"call": numpy.geterrcall(), "bufsize": numpy.getbufsize()},
            defaults=lambda: {"call": None, "bufsize": 8192},
            write=call,
        ),
    ]


_OF_THE_MACHINE = frozenset({"backend", "backend_fallback", "toolbar"})


def _matplotlib() -> list[Settings]:
    matplotlib: Any = importlib.import_module("matplotlib")

    def write(key: str, value: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matplotlib.rcParams[key] = value

    def read(params: Any) -> dict[str, Any]:
        return {key: value for key, value in dict.items(params) if key not in _OF_THE_MACHINE}

    return [
        Settings(
            name="matplotlib.rcParams",
            read=lambda: read(matplotlib.rcParams),
            defaults=lambda: read(matplotlib.rcParamsDefault),
            write=write,
        )
    ]


_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _decimal() -> list[Settings]:
    signals = {signal.__name__: signal for signal in decimal.getcontext().traps}

    def read(context: decimal.Context) -> dict[str, Any]:
        values = {name: getattr(context, name) for name in _DECIMAL}
        for kind in ("traps", "flags"):
            table = getattr(context, kind)
            values |= {f"{kind}.{name}": bool(table[signal]) for name, signal in signals.items()}
        return values

    def write(key: str, value: Any) -> None:
        kind, _, name = key.partition(".")
        if name:
            getattr(decimal.getcontext(), kind)[signals[name]] = value
        else:
            setattr(decimal.getcontext(), key, value)

    return [
        Settings(
            name="decimal.getcontext()",
            read=lambda: read(decimal.getcontext()),
            defaults=lambda: read(decimal.DefaultContext),
            write=write,
        )
    ]


def _python() -> list[Settings]:
    places = {"LC_NUMERIC": locale.LC_NUMERIC, "LC_TIME": locale.LC_TIME, "LC_COLLATE": locale.LC_COLLATE}
    places["LC_MONETARY"] = locale.LC_MONETARY
    writers: dict[str, Callable[[Any], object]] = {
        "recursion limit": sys.setrecursionlimit,
        "int digits": sys.set_int_max_str_digits,
        "switch interval": sys.setswitchinterval,
        "garbage is looked for": lambda on: gc.enable() if on else gc.disable(),
        "garbage thresholds": lambda numbers: gc.set_threshold(*numbers),
        "socket timeout": socket.setdefaulttimeout,
    }

    def read() -> dict[str, Any]:
        return {
            "recursion limit": sys.getrecursionlimit(),
            "int digits": sys.get_int_max_str_digits(),
            "switch interval": sys.getswitchinterval(),
            "garbage is looked for": gc.isenabled(),
            "garbage thresholds": gc.get_threshold(),
            "socket timeout": socket.getdefaulttimeout(),
            **{name: locale.setlocale(place) for name, place in places.items()},
        }

    def write(key: str, value: Any) -> None:
        writers[key](value) if key in writers else locale.setlocale(places[key], value)

    beginning = {
        "recursion limit": None,  # a kernel sets its own: it is always saved
        "int digits": sys.int_info.default_max_str_digits,
        "switch interval": 0.005,
        "garbage is looked for": True,
        "garbage thresholds": None,  # they differ by version: always saved
        "socket timeout": None,
        **dict.fromkeys(places, "C"),
    }
    return [Settings(name="sys", read=read, defaults=lambda: beginning, write=write)]


#: For each module: what gives the settings of it, once it is imported.
_LIBRARIES: Mapping[str, Callable[[], list[Settings]]] = {
    "sys": _python,
    "decimal": _decimal,
    "numpy": _numpy,
    "pandas": _pandas,
    "matplotlib": _matplotlib,
    "torch": torch_settings,
}


def _take(tell: Tell) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [each.changed() for each in settings()]
        for name, settings in _LIBRARIES.items()
        if _is_ready(name)
    }


def _is_ready(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def _put(value: dict[str, list[dict[str, Any]]], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    for name, tables in value.items():
        if name not in _LIBRARIES or not (any(tables) or name in sys.modules):
            continue  # nothing to set in a library that nobody has imported here
        try:
            importlib.import_module(name)
        except ImportError as error:
            changes.failed(name, f"{name} cannot be imported here: {error}")
            continue
        for settings, changed in zip(_LIBRARIES[name](), tables, strict=False):
            settings.put(changed, changes)
    return changes.undo


SECTION = Section(name=_NAME, take=_take, put=_put)
