"""How log lines are written: as text for people, or as one JSON document a line for programs.

Rules of this module: every line that is about a request of the API has its id, which the answer has, too; no
query, header or body is ever written, because secrets travel there.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum
from typing import Any

#: Id of the request that is answered; empty outside of one.
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
#: What a client may call its request: what can stand in any log and header, and is not long.
_GOOD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
#: Gets one line for each answer of the API.
ACCESS = logging.getLogger("jupyter_gpupool.access")


class LogFormat(Enum):
    """How log lines are written."""

    #: For people.
    TEXT = "text"
    #: One document a line, and a line for each answer of the API.
    JSON = "json"


def good_id(told: str | None) -> str:
    """Return the id that a client gave its request, if it can be used; else nothing."""
    return told if told is not None and _GOOD_ID.fullmatch(told) else ""


class TextFormatter(logging.Formatter):
    """Time, level, logger and message; the id of a request at the end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Write a record."""
        request_id = REQUEST_ID.get()
        return super().formatMessage(record) + (f" [{request_id}]" if request_id else "")


class JSONFormatter(logging.Formatter):
    """The same as a document: ``time``, ``level``, ``logger``, ``message``, ``request_id`` and more."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        doc: dict[str, Any] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := REQUEST_ID.get():
            doc["request_id"] = request_id
        doc.update(getattr(record, "fields", {}))
        if record.exc_info:
            doc["exception"] = self.formatException(record.exc_info)
        return json.dumps(doc, ensure_ascii=False, default=str)


def settle(handler: logging.Handler, how: LogFormat) -> None:
    """Have a handler write in one form; only as documents there is a line for each answer."""
    as_json = how is LogFormat.JSON
    handler.setFormatter(JSONFormatter() if as_json else TextFormatter())
    ACCESS.setLevel(logging.NOTSET if as_json else logging.WARNING)
