"""Machines that NVML is known to behave differently on, as states of the fake driver."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.fake_gpus import FakeGPUs
from tests.support.gpu_models import RTX4090

MIB = 2**20
#: Larger than any pid of this machine: what a process of the host is called within a container.
HOST_PID = 4_194_304 + 4711


def eight_a100(gpus: FakeGPUs) -> None:
    """Describe a server with eight A100-80."""
    gpus.a100(8)


def mixed_mig(gpus: FakeGPUs) -> None:
    """Describe an H100 with three instances of different sizes."""
    gpus.h100_mig("3g.40gb", "2g.20gb", "1g.10gb")


def unified(gpus: FakeGPUs) -> None:
    """Describe a GB10: neither form of memory info is supported."""
    gpus.gb10()


def wsl(gpus: FakeGPUs) -> None:
    """Describe a graphics card in WSL 2: no memory by process, hardly any health, no events."""
    gpus.add(RTX4090).processes("gpu0", (HOST_PID, None), (HOST_PID + 1, None))
    for function in ("TotalEccErrors", "RemappedRows", "NumaNodeId", "FanSpeed", "SupportedEventTypes"):
        gpus.set(f"gpu0.nvmlDeviceGet{function}", "!3")


def no_driver(gpus: FakeGPUs) -> None:
    """Describe a machine with the library but without the kernel's module."""
    gpus.a100().set("init", "!9")


def branch_535(gpus: FakeGPUs) -> None:
    """Describe a driver of branch 535, which writes longer entries of processes under the same name."""
    gpus.set("driver", "535.54.03").a100(2).set("processes", "r535")
    gpus.processes("gpu0", (101, 100 * MIB), (102, 200 * MIB), (103, None))
    gpus.missing(
        "nvmlDeviceGetMemoryLimits_v1",
        "nvmlDeviceSetMemoryLimits_v1",
        "nvmlDeviceGetCurrentClocksEventReasons",
    )


def container(gpus: FakeGPUs) -> None:
    """Describe a container in which the driver names the host's processes."""
    gpus.a100(2).processes("gpu0", (HOST_PID, 300 * MIB), (HOST_PID + 1, 50 * MIB, "mps"))


def off_the_bus(gpus: FakeGPUs) -> None:
    """Describe four GPUs of which one fell off the bus."""
    gpus.a100(4).lose(2)


def sixteen(gpus: FakeGPUs) -> None:
    """Describe a machine with sixteen GPUs on two PCI domains."""
    gpus.a100(8).h100(8)
    for index in range(16):
        gpus.set(f"gpu{index}.pci", f"{index // 8} {0x10 + index % 8} 0")


#: By the name under which a test shows it.
SCENARIOS: dict[str, Callable[[FakeGPUs], None]] = {
    made.__name__: made
    for made in (
        eight_a100,
        mixed_mig,
        unified,
        wsl,
        no_driver,
        branch_535,
        container,
        off_the_bus,
        sixteen,
    )
}
