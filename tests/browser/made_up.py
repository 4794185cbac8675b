"""A pool that does not exist, told to a page over its live channel: for sizes that no test machine has.

Rule of this module: the page is real and so is what it is told (the protocol's own documents); only the pool
behind it is made up.
"""

from __future__ import annotations

import math
import re

import msgspec
from playwright.sync_api import Page, WebSocketRoute

from jupyter_gpupool.core.devices import DeviceKind, Health
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import (
    DeviceDoc,
    HolderDoc,
    IsolationDoc,
    LeaseDoc,
    NodeDoc,
    PoolDoc,
    QueueEntryDoc,
    ReadingsDoc,
    ShareDoc,
)
from jupyter_gpupool.server.feed import PoolMessage, StatusMessage
from tests.support.fake_pool import lease_doc, pool_doc

GIB = 2**30
#: The address of a page's live channel.
STREAM = re.compile(r"/jupyter_gpupool/api/v1/stream")
_MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
_ENFORCED = [
    IsolationDoc(
        resource=Resource.MEMORY,
        strength=Strength.HARD,
        mechanism="hard memory limit of the driver",
        limit="20.0 GiB",
        verified=Verified.READ_BACK,
    ),
    IsolationDoc(
        resource=Resource.COMPUTE,
        strength=Strength.SOFT,
        mechanism="soft MPS",
        limit="25 %",
        verified=Verified.PROBED,
    ),
]


class Channel:
    """The live channel of a page, with us at its other end.

    Parameters
    ----------
    page : Page
        A page that has not been opened yet.
    doc : PoolDoc
        What it is told first, whenever it connects.
    """

    def __init__(self, page: Page, doc: PoolDoc) -> None:
        self._sockets: list[WebSocketRoute] = []
        self._doc = doc
        page.route_web_socket(STREAM, self._opened)

    def say(self, doc: PoolDoc) -> None:
        """Tell the page the newest snapshot."""
        self._doc = doc
        for socket in self._sockets:
            socket.send(encode(PoolMessage(pool=doc)).decode())

    def say_status(self, state: str) -> None:
        """Tell the page how the server stands with the pool."""
        for socket in self._sockets:
            socket.send(encode(StatusMessage(state=state)).decode())

    def say_ignored(self, doc: PoolDoc) -> None:
        """Tell the page as much in a message of a kind that it does not know."""
        text = encode(PoolMessage(pool=doc)).decode().replace('"pool"', '"later"', 1)
        for socket in self._sockets:
            socket.send(text)

    def _opened(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)
        socket.send(encode(StatusMessage(state="connected")).decode())
        socket.send(encode(PoolMessage(pool=self._doc)).decode())


def made_up_pool(devices: int, leases: int, *, tick: int = 0, mine: str = "", nodes: int = 0) -> PoolDoc:
    """Build a pool of GPUs with leases spread over them; with ``tick`` its readings move.

    Parameters
    ----------
    devices, leases : int
        How many.
    tick : int
        Seconds since it began.
    mine : str
        A kernel that holds the first lease; without it the first three are held by scripts.
    nodes : int
        On how many machines; by default eight GPUs stand in one.
    """
    hosts = nodes or max(1, math.ceil(devices / 8))
    held = [_lease(index, index % devices, tick, mine) for index in range(leases)] if devices else []
    base = pool_doc(revision=1)
    return msgspec.structs.replace(
        base,
        me="ann",
        nodes=[NodeDoc(id=f"node{i}", hostname=f"gpu-{i + 1:02}", connected=True) for i in range(hosts)],
        devices=[_device(i, i * hosts // devices, held, tick) for i in range(devices)],
        leases=held,
        queue=[_waits(position) for position in range(1, 3)] if leases else [],
        warnings=[],
    )


def _wave(index: int, tick: int, low: float, high: float) -> float:
    return low + (high - low) * (0.5 + 0.5 * math.sin(index * 1.7 + tick / 7))


def _device(index: int, host: int, leases: list[LeaseDoc], tick: int) -> DeviceDoc:
    name, total = f"cuda{index}", 80 * GIB
    own = [lease for lease in leases if lease.shares[0].device_name == name]
    readings = ReadingsDoc(
        utilization_percent=round(_wave(index, tick, 5, 98)) if own else 0.0,
        memory_used_bytes=sum(lease.memory_bytes or 0 for lease in own) * 3 // 4,
        temperature_celsius=round(_wave(index, tick, 38, 71)),
        power_watts=round(_wave(index, tick, 62, 380)),
    )
    failing = index == 5
    return DeviceDoc(
        id=f"GPU-{index}",
        name=name,
        node_id=f"node{host}",
        kind=DeviceKind.CUDA,
        model=_MODELS[index % 2],
        emulated=False,
        memory_bytes=total,
        compute_units=108,
        free_compute_milli=max(0, 1000 - sum(lease.compute_milli for lease in own)),
        free_memory_bytes=max(0, total - sum(lease.memory_bytes or 0 for lease in own)),
        unmanaged_bytes=6 * GIB if index == 2 else 0,
        health=Health.DEGRADED if failing else Health.HEALTHY,
        health_reason=f"{name} is hot: 92 °C." if failing else "",
        offered=True,
        withheld="",
        readings=readings,
        leases=[lease.id for lease in own],
        sharing="mps",
        isolation=_ENFORCED,
    )


def _lease(index: int, device: int, tick: int, kernel_id: str) -> LeaseDoc:
    mine = index < 3
    part = ShareDoc(
        device_id=f"GPU-{device}", device_name=f"cuda{device}", compute_milli=250, memory_bytes=20 * GIB
    )
    holder = HolderDoc(kernel_id=kernel_id if index == 0 else "", label=f"train-{index}.py", pid=100 + index)
    return lease_doc(
        f"lease_{index:03}",
        mine=mine,
        owner="ann" if mine else "",
        memory_bytes=20 * GIB,
        kind=DeviceKind.CUDA,
        shares=[part],
        node_id="",
        holder=holder if mine else HolderDoc(),
        isolation=_ENFORCED if mine else [],
        held_seconds=100.0 + tick + index,
        memory_used_bytes=round(_wave(index, tick, 2, 18) * GIB) if mine else None,
        utilization_percent=round(_wave(index, tick, 0, 25)) if mine else None,
        idle_seconds=700.0 + tick if index == 1 else None,
        asked_compute_milli=250,
    )


def _waits(position: int) -> QueueEntryDoc:
    return QueueEntryDoc(
        position=position,
        lease_id=f"opaque_{position}",
        mine=False,
        kind=DeviceKind.CUDA,
        compute_milli=500,
        memory_bytes=None,
        reason="",
        waited_seconds=30.0 * position,
    )
