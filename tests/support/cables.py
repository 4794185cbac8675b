"""A bad cable between two hosts of a test: what it carries comes late, in part, and at times not at all.

Rules of this module: it carries whole Ethernet frames between two TAP devices, so delay and loss are met by
the system's own TCP, which asks again and slows down as on a real network; chance has a seed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import struct
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from typing import Self

from tests.support.hosts import Host, Network, inside, ip

#: Of Linux: make a TAP device; without a header before each frame.
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_MOST_BYTES = 65536
#: Longest time between two looks at whether it is to end, seconds.
_LOOK_SECONDS = 0.2


class BadCable(AbstractContextManager["BadCable"]):
    """The cable of one host, in place of the good one that it had.

    Parameters
    ----------
    network : Network
        Which the host is in.
    host : Host
        Whose.
    delay_seconds : float
        How late each frame comes, each way.
    loss : float
        Part of the frames that never come.
    stall_seconds : tuple of float
        Shortest and longest time during which, every now and then, nothing comes through; (0, 0) for never.
    seed : int
        Of chance.

    Attributes
    ----------
    lost, stalls : int
        How many frames did not come through, and how often it has stalled.
    """

    def __init__(
        self,
        network: Network,
        host: Host,
        *,
        delay_seconds: float = 0.0,
        loss: float = 0.0,
        stall_seconds: tuple[float, float] = (0.0, 0.0),
        seed: int = 1,
    ) -> None:
        self.lost = self.stalls = 0
        self._delay, self._loss, self._between = delay_seconds, loss, stall_seconds
        self._chance = random.Random(seed)
        self._silent = threading.Event()
        self._over = threading.Event()
        first = network.hosts[0]
        ip("-n", host.space, "link", "del", "eth0")
        self._ends = (_tap(host, "eth0"), _tap(first, host.link))
        ip("-n", first.space, "link", "set", host.link, "master", "bridge", "up")
        ip("-n", host.space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", host.space, "link", "set", "eth0", "up")
        self._thread = threading.Thread(target=self._carry, name=f"cable of {host.address}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)

    def silence(self) -> None:
        """Carry nothing from now on; both ends see a cable that is plugged in."""
        self._silent.set()

    def mend(self) -> None:
        """Carry again, as badly as before."""
        self._silent.clear()

    def _carry(self) -> None:
        """Carry frames until it is over."""
        here, there = self._ends
        opposite = {here: there, there: here}
        late: deque[tuple[float, int, bytes]] = deque()  # all are equally late, so the first is due first
        stall_begins, stall_ends = self._next_stall(time.monotonic())
        while not self._over.is_set():
            now = time.monotonic()
            while late and late[0][0] <= now:
                _, end, frame = late.popleft()
                _send(end, frame)
            if now > stall_ends:
                stall_begins, stall_ends = self._next_stall(now)
                self.stalls += 1
            wait = min(_LOOK_SECONDS, late[0][0] - now) if late else _LOOK_SECONDS
            for end in select.select(self._ends, (), (), max(0.0, wait))[0]:
                frame = os.read(end, _MOST_BYTES)
                now = time.monotonic()
                stalled = stall_begins < now < stall_ends
                if stalled or self._silent.is_set() or self._chance.random() < self._loss:
                    self.lost += 1
                else:
                    late.append((now + self._delay, opposite[end], frame))

    def _next_stall(self, now: float) -> tuple[float, float]:
        """Choose when nothing comes through, from then to then."""
        shortest, longest = self._between
        if not longest:
            return float("inf"), float("inf")
        begins = now + self._chance.uniform(1.0, 3.0)
        return begins, begins + self._chance.uniform(shortest, longest)


def _tap(host: Host, name: str) -> int:
    """Make a TAP device on a host, and return what reads and writes its frames."""
    with inside(host):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        except OSError:
            os.close(end)
            raise
    return end


def _send(end: int, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # the other host's card is down: what was sent to it is lost
        os.write(end, frame)
