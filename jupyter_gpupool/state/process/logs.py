"""Loggers: their levels, and the handlers that the user gave them.

Rules of this module: the kernel's own loggers keep their handlers; a logger that the snapshot does not know
stays as it is.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

from jupyter_gpupool.state.graph import lost
from jupyter_gpupool.state.process.section import Changes, Section, Tell, Undo

_NAME = "logging"
_KERNEL = (
    "IPKernelApp",
    "ipykernel",
    "tornado",
    "traitlets",
    "jupyter_gpupool",
    "distributed",
    "zmq",
    "Comm",
)
_LEVELS = ("CRITICAL", "FATAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "NOTSET")


def _loggers() -> dict[str, logging.Logger]:
    named: dict[str, logging.Logger] = {
        name: logger
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and name.partition(".")[0] not in _KERNEL
    }
    return {"root": logging.root, **named}


def _state(logger: logging.Logger) -> dict[str, Any]:
    return {
        "level": logger.level,
        "propagate": logger.propagate,
        "disabled": logger.disabled,
        "filters": list(logger.filters),
        "handlers": list(logger.handlers),
    }


def _is_as_made(name: str, state: dict[str, Any]) -> bool:
    level = logging.WARNING if name == "root" else logging.NOTSET
    return (
        state["level"] == level
        and state["propagate"]
        and not (state["disabled"] or state["filters"] or state["handlers"])
    )


def _take(tell: Tell) -> dict[str, Any]:
    states = {name: _state(logger) for name, logger in _loggers().items()}
    return {
        "loggers": {name: state for name, state in states.items() if not _is_as_made(name, state)},
        "disable": logging.root.manager.disable,
        "captures": logging._warnings_showwarning is not None,  # type: ignore[attr-defined]
        "levels": {level: name for level, name in logging._levelToName.items() if name not in _LEVELS},
    }


def _assign(logger: logging.Logger, state: dict[str, Any]) -> None:
    logger.setLevel(state["level"])
    logger.propagate, logger.disabled = state["propagate"], state["disabled"]
    logger.filters[:] = [one for one in state["filters"] if not lost.is_lost(one)]
    logger.handlers[:] = [one for one in state["handlers"] if _can_write(one)]


def _can_write(handler: Any) -> bool:
    """Tell whether a handler came back with what it writes to; one without would fail at every message."""
    return not lost.is_lost(handler) and not any(map(lost.is_lost, vars(handler).values()))


def _put(value: dict[str, Any], tell: Tell) -> Undo:
    changes = Changes(_NAME, tell)
    for name, state in value["loggers"].items():
        logger = logging.root if name == "root" else logging.getLogger(name)
        _put_one(logger, name, state, changes)
    for level, name in value["levels"].items():
        _put_level(level, name, changes)
    before = logging.root.manager.disable
    changes.make(
        "logging.disable", lambda: logging.disable(value["disable"]), lambda: logging.disable(before)
    )
    captures = logging._warnings_showwarning is not None  # type: ignore[attr-defined]
    if captures != value["captures"] and _can_capture():
        changes.make(
            "logging.captureWarnings",
            lambda: logging.captureWarnings(value["captures"]),
            lambda: logging.captureWarnings(captures),
        )
    return changes.undo


def _put_one(logger: logging.Logger, name: str, state: dict[str, Any], changes: Changes) -> None:
    before = _state(logger)
    changes.make(
        f"logging.getLogger({name!r})", lambda: _assign(logger, state), lambda: _assign(logger, before)
    )


def _put_level(level: int, name: str, changes: Changes) -> None:
    before = logging.getLevelName(level)
    changes.make(
        f"logging.getLevelName({level})",
        lambda: logging.addLevelName(level, name),
        lambda: logging.addLevelName(level, before),
    )


def _can_capture() -> bool:
    return callable(warnings.showwarning)


SECTION = Section(name=_NAME, take=_take, put=_put)
