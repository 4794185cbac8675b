"""Simulated users: each asks, holds, works or is idle, gives back, and thinks, over and over.

Every call is timed but those that wait for something to happen, which are no work of the server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from _common import HttpConnection

#: A fortieth of a device.
SHARE_MILLI = 25


@dataclass
class Tally:
    """What happened to all users."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    granted: list[str] = field(default_factory=list)
    given_up: int = 0

    @property
    def all_seconds(self) -> list[float]:
        """How long each call took, of whatever kind."""
        return [taken for kind in self.seconds.values() for taken in kind]


class _User:
    """A user on a connection of their own."""

    def __init__(self, number: int, port: int, tally: Tally, chance: random.Random, pace: float) -> None:
        self._connection = HttpConnection(port)
        self._headers = f"Authorization: {self._identity(number)}\r\nContent-Type: application/json\r\n"
        self._tally = tally
        self._chance = chance
        self._pace = pace

    @staticmethod
    def _identity(number: int) -> str:
        """Return the header by which a user proves who they are."""
        raise NotImplementedError

    async def live(self, until: float) -> None:
        """Go on until a moment of the monotonic clock, and hold nothing in the end."""
        await asyncio.sleep(self._chance.uniform(0, self._pace))
        while time.monotonic() < until:
            await self._round(until)
            await self._pause(1)
        self._connection.close()

    async def _round(self, until: float) -> None:
        raise NotImplementedError

    async def _pause(self, paces: float) -> None:
        await asyncio.sleep(self._chance.expovariate(1 / (paces * self._pace)))

    async def _call(
        self, what: str, method: str, path: str, body: object = None, good: int = 200
    ) -> dict[str, Any] | None:
        """Send one request, and note how long it took; None, and an error, where it was refused."""
        data = b"" if body is None else json.dumps(body).encode()
        began = time.perf_counter()
        status, answer = await self._connection.ask(method, path, self._headers, data)
        self._tally.seconds.setdefault(what, []).append(time.perf_counter() - began)
        if status != good:
            self._tally.errors[f"{what}: {status} {answer[:200].decode()}"] += 1
            return None
        found: dict[str, Any] = json.loads(answer) if answer else {}
        return found


class PoolUser(_User):
    """A user of the pool, whose notebook holds a share, works on it, and gives it back."""

    @staticmethod
    def _identity(number: int) -> str:
        return f"Bearer token-of-user{number}"

    async def _round(self, until: float) -> None:
        body = {
            "compute_milli": SHARE_MILLI,
            "kind": "cuda",
            "wait_seconds": 120,
            "holder": {"key": uuid.uuid4().hex, "label": "load.ipynb"},
        }
        lease = await self._call("request", "POST", "/api/v1/leases", body, good=201)
        if lease is None:
            return
        path = f"/api/v1/leases/{lease['id']}"
        lease = await self._wait(path, lease, ("queued", "attaching"))
        if lease is None or lease["state"] != "active":
            self._tally.given_up += 1
            return
        self._tally.granted.append(lease["id"])
        for busy in (True, False):
            if time.monotonic() < until:
                await self._pause(1)
            idle = 0.0 if busy else self._chance.uniform(0, 5)
            await self._call("activity", "PUT", f"{path}/activity", {"busy": busy, "idle_seconds": idle})
            await self._call("look", "GET", "/api/v1/usage" if busy else path)
        released = await self._call("release", "DELETE", path)
        if released is not None:
            await self._wait(path, released, ("active", "ending"))

    async def _wait(
        self, path: str, lease: dict[str, Any], while_in: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """Follow a lease for as long as it is in one of these states."""
        known: dict[str, Any] | None = lease
        while known is not None and known["state"] in while_in:
            query = f"?since={known['tag']}&wait_seconds=10"
            status, answer = await self._connection.ask("GET", path + query, self._headers)
            known = json.loads(answer) if status == 200 else None
            if known is None:
                self._tally.errors[f"wait: {status}"] += 1
        return known


class GatewayUser(_User):
    """A user of dask-gateway, who creates a cluster, has it for a while, and stops it."""

    @staticmethod
    def _identity(number: int) -> str:
        return f"Basic {base64.b64encode(f'user{number}:'.encode()).decode()}"

    async def _round(self, until: float) -> None:
        made = await self._call("request", "POST", "/api/v1/clusters/", {}, good=201)
        await self._pause(2)
        if made is not None:
            path = f"/api/v1/clusters/{made['name']}"
            await self._call("look", "GET", path)
            await self._call("release", "DELETE", path, good=204)
