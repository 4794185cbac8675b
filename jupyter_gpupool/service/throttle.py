"""How much of the service one owner may have: requests in a second, and event streams at once.

Rules of this module: an owner's flood is refused at that owner's door and costs others nothing; what is
remembered of owners is bounded.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_gpupool.service.errors import TooManyRequests

#: Of how many owners something is remembered; more than that many are never busy at once.
_OWNERS = 10_000


class Throttle:
    """Counts what owners ask for.

    Parameters
    ----------
    requests_per_second : float
        What one owner may ask for in the long run; 0 for no limit.
    burst_seconds : float
        For how many seconds' worth of requests at once.
    streams : int
        Event streams of one owner at once; 0 for no limit.
    all_streams : int
        Event streams of all owners together.
    monotonic : callable
        Seconds that never go back.
    """

    def __init__(
        self,
        *,
        requests_per_second: float = 0.0,
        burst_seconds: float = 4.0,
        streams: int = 0,
        all_streams: int = 2000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = requests_per_second
        self._most = requests_per_second * burst_seconds
        self._streams = streams
        self._all_streams = all_streams
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._open: Counter[str] = Counter()

    def admit(self, owner: str) -> None:
        """Count one request.

        Raises
        ------
        TooManyRequests
            If this owner has asked too often of late.
        """
        if not self._rate:
            return
        now = self._monotonic()
        left, since = self._left.get(owner, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        if left < 1.0:
            raise TooManyRequests(
                f"You ask more often than {self._rate:g} times a second.",
                hint="Wait a moment; whoever runs the pool can raise PoolService.requests_per_second.",
            )
        self._left[owner] = (left - 1.0, now)
        self._left.move_to_end(owner)
        if len(self._left) > _OWNERS:
            self._left.popitem(last=False)

    @contextmanager
    def stream(self, owner: str) -> Iterator[None]:
        """Count one event stream for as long as it is open.

        Raises
        ------
        TooManyRequests
            If there are as many as may be.
        """
        mine = self._streams and self._open[owner] >= self._streams
        if mine or self._open.total() >= self._all_streams:
            whose = f"You have {self._open[owner]}" if mine else "There are too many"
            raise TooManyRequests(
                f"{whose} event streams open; no more are served now.", hint="Close some, such as old tabs."
            )
        self._open[owner] += 1
        try:
            yield
        finally:
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]
