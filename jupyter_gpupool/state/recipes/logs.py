"""Loggers stay who they are, and handlers go on writing where they wrote.

Rule of this module: a logger is found by its name; what it is set to is put back with the process.
"""

from __future__ import annotations

import logging
from typing import Any

from jupyter_gpupool.state.graph.capturing import Capturing
from jupyter_gpupool.state.recipes.plain import attributes_of, new, plain, set_attributes
from jupyter_gpupool.state.recipes.registry import Recipe, Reduced

_OF_THE_PROCESS = frozenset({"lock", "sock", "socket"})


def _logger(value: logging.Logger, capturing: Capturing) -> Reduced:
    if value is logging.root:
        return logging.getLogger, ()
    if value.manager.loggerDict.get(value.name) is value:
        return find_logger, (value.name, type(value))
    return plain(value)  # one that nobody finds by its name


def find_logger(name: str, kind: type[logging.Logger]) -> logging.Logger:
    """Find a logger by its name; one that is not there yet is made of its class."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(kind)
    try:
        return logging.getLogger(name)
    finally:
        logging.setLoggerClass(usual)


def _handler(value: logging.Handler, capturing: Capturing) -> Reduced:
    if value is logging.lastResort:
        return getattr, (logging, "lastResort")
    attributes = {name: found for name, found in attributes_of(value).items() if name not in _OF_THE_PROCESS}
    sockets = [name for name in ("sock", "socket") if hasattr(value, name)]
    return new, (type(value),), (attributes, sockets), None, None, fill_handler


def fill_handler(value: Any, state: tuple[dict[str, Any], list[str]]) -> None:
    """Give a handler what it had, with a lock of its own; connections are made again when it writes."""
    attributes, sockets = state
    set_attributes(value, {**attributes, **dict.fromkeys(sockets)})
    value.createLock()
    logging._addHandlerRef(value)  # type: ignore[attr-defined]
    if value.name:
        logging._handlers[value.name] = value  # type: ignore[attr-defined]


RECIPES = (
    Recipe(module="logging", qualname="Logger", reduce=_logger, subclasses=True, regardless=True),
    Recipe(module="logging", qualname="Handler", reduce=_handler, subclasses=True),
)
