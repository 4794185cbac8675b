"""Leave the least: of processor and of devices, in equal parts."""

from __future__ import annotations

from jupyter_gpupool.core.placement.demand import Demand
from jupyter_gpupool.core.placement.rooms import Ask, Room, tightest
from jupyter_gpupool.core.policies.score import Scored

#: What counts as a whole node: thousandths of a core and of a device.
_CPU_MILLI, _DEVICES_MILLI = 128_000, 8_000


def best_fit(ask: Ask, room: Room, demand: Demand) -> Scored:
    """Score by what is left, as Tetris' best fit does in Weng et al. (USENIX ATC 2023)."""
    cpu = (room.cpu_milli - ask.cpu_milli) / _CPU_MILLI
    devices = (room.free_milli - ask.demand_milli) / _DEVICES_MILLI
    return Scored(int(100 * (1 - 0.5 * cpu - 0.5 * devices)), tightest(ask, room) if ask.devices else ())
