"""New ids of leases and of requests.

Rule of this module: ids sort in the order in which they were made.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator

_RANDOM_BITS = 62
_COUNTER_BITS = 12


class LeaseIds:
    """Mints ``lease_`` + UUIDv7 (RFC 9562): milliseconds, a counter within them, and 62 random bits.

    Parameters
    ----------
    wall_ms : callable
        UTC, milliseconds since the epoch; a jump back does not break the order.
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._last = 0

    def mint(self) -> str:
        """Return a new id."""
        self._last = max(self._last + 1, self._wall_ms() << _COUNTER_BITS)
        milliseconds, counter = self._last >> _COUNTER_BITS, self._last & 0xFFF
        value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62
        text = f"{value | secrets.randbits(_RANDOM_BITS):032x}"
        return f"lease_{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def request_ids() -> Iterator[str]:
    """Yield ids by which a request is found in the log: which run of the service, and a number."""
    run = secrets.token_hex(4)
    return (f"{run}-{number:x}" for number in itertools.count(1))
