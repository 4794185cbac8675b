"""What kinds of things keep a request waiting."""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """What kind of thing keeps a request from being granted."""

    #: Others have what it asks for, or come before it.
    CAPACITY = "capacity"
    #: A rule of the administrator: a quota, or a reservation.
    POLICY = "policy"
    #: The pool cannot grant such a thing at present, whoever asks.
    POOL = "pool"
