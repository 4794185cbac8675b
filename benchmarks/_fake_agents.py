"""Many agents in one process: the real link and the real messages, and no devices or holders behind.

Run with one JSON object as argument: the runtime directory of the service, the first number, how many, and
whether each says that holders attach. It writes one line when all of them have been connected, and again each
time that is so after a loss.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from jupyter_gpupool._version import version
from jupyter_gpupool.cluster import nodes
from jupyter_gpupool.cluster.link import AgentLink
from jupyter_gpupool.cluster.whereabouts import SameMachine
from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.protocol import names
from jupyter_gpupool.protocol.messages import (
    AttachedReport,
    DetachedReport,
    DetachOrder,
    DeviceReport,
    HelloReport,
    HoldersReport,
    Order,
    PrepareOrder,
    ReportOrder,
)

#: How often each says that it lives, seconds: twice as often as real ones.
HEARTBEAT_SECONDS = 1.0


class FakeAgent:
    """One agent: it takes orders, and confirms each end at once; with ``attach`` each beginning, too."""

    def __init__(self, runtime: Path, number: int, *, attach: bool = False) -> None:
        self._attach = attach
        self._node_id = f"fake-{number}"
        self.link = AgentLink(
            pool=SameMachine(runtime), node_id=self._node_id, hello=self._hello, on_orders=self._obey
        )

    def _hello(self) -> HelloReport:
        device = DeviceReport(
            id=f"GPU-{self._node_id}",
            name=f"cuda0 on {self._node_id}",
            kind=DeviceKind.CUDA,
            model="Emulated",
            memory_bytes=80 * 2**30,
            compute_units=108,
            emulated=True,
        )
        return HelloReport(
            format=names.FORMAT,
            version=version(),
            node_id=self._node_id,
            hostname=self._node_id,
            pid=os.getpid(),
            socket="/nowhere",
            devices=[device],
            holders=[],
        )

    def _obey(self, orders: list[Order]) -> None:
        for order in orders:
            match order:
                case PrepareOrder() if self._attach:
                    self.link.send(
                        AttachedReport(
                            lease_id=order.lease_id,
                            generation=order.generation,
                            pid=os.getpid(),
                            isolation=[],
                        )
                    )
                case DetachOrder():
                    self.link.send(DetachedReport(lease_id=order.lease_id, generation=order.generation))
                case ReportOrder():
                    self.link.send(HoldersReport(token=order.token, holders=[]))
                case _:
                    pass


async def main(runtime: Path, first: int, count: int, *, attach: bool) -> None:
    """Run the agents, and tell whenever all of them are connected."""
    agents = [FakeAgent(runtime, first + number, attach=attach) for number in range(count)]
    running = [asyncio.ensure_future(agent.link.run()) for agent in agents]
    told = False
    while not any(task.done() for task in running):
        complete = all(agent.link.connected for agent in agents)
        if complete and not told:
            print("complete", flush=True)
        told = complete
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    nodes.HEARTBEAT_SECONDS = HEARTBEAT_SECONDS
    order = json.loads(sys.argv[1])
    asyncio.run(main(Path(order["runtime"]), order["first"], order["count"], attach=order["attach"]))
