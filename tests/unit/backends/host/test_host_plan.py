"""How much of the node a holder gets beside its share of a GPU."""

from __future__ import annotations

import pytest

from jupyter_gpupool.backends.host.plan import (
    CUDA_ROOM_BYTES,
    LEAST_CORES_MILLI,
    LEAST_MEMORY_BYTES,
    LEAST_PROCESSES,
    Asked,
    Node,
    Used,
    choose,
)
from jupyter_gpupool.backends.treememory import TreeMemory
from jupyter_gpupool.core.leases import Resource

GIB = 2**30
NODE = Node(cores=64, memory_bytes=512 * GIB, most_processes=32768)
LITTLE = Used(memory_bytes=GIB, tasks=10)


def test_what_was_asked_for_is_the_limit_whatever_the_part_is() -> None:
    asked = Asked(cpu_milli=12_000, memory_bytes=GIB)
    wanted = choose(1 / 32, NODE, LITTLE, asked)
    assert (wanted.cores_milli, wanted.memory_bytes) == (12_000, GIB)
    cores_only = choose(1 / 32, NODE, LITTLE, Asked(cpu_milli=100))
    assert (cores_only.cores_milli, cores_only.memory_bytes) == (100, 16 * GIB)


@pytest.mark.parametrize(
    ("part", "cores_milli", "memory_gib", "processes"),
    [
        (1.0, 64_000, 512, 32768),
        (1 / 8, 8_000, 64, 4096),
        (1 / 32, 2_000, 16, 1024),
        (0.001, LEAST_CORES_MILLI, LEAST_MEMORY_BYTES // GIB, LEAST_PROCESSES),
    ],
)
def test_a_holder_gets_its_part_and_never_less_than_a_notebook_needs(
    part: float, cores_milli: int, memory_gib: int, processes: int
) -> None:
    wanted = choose(part, NODE, LITTLE)
    assert (wanted.cores_milli, wanted.memory_bytes, wanted.processes) == (
        cores_milli,
        memory_gib * GIB,
        processes,
    )
    assert wanted.reasons == {}


def test_a_small_node_is_not_promised_more_than_it_has() -> None:
    wanted = choose(0.1, Node(cores=1, memory_bytes=GIB, most_processes=100), Used(memory_bytes=1, tasks=1))
    assert (wanted.cores_milli, wanted.memory_bytes) == (LEAST_CORES_MILLI, GIB)


def test_a_kernel_that_is_larger_already_gets_no_limit_and_is_told_why() -> None:
    wanted = choose(1 / 8, NODE, Used(memory_bytes=65 * GIB, tasks=5000))
    assert (wanted.memory_bytes, wanted.processes) == (None, None)
    assert "It uses 65.0 GiB already, more than its part (64.0 GiB)" in wanted.reasons[Resource.HOST_MEMORY]
    assert "5000 processes and threads already" in wanted.reasons[Resource.PROCESSES]
    assert wanted.cores_milli == 8000


@pytest.mark.parametrize(
    ("node", "used"),
    [
        (Node(cores=4, memory_bytes=None, most_processes=100), LITTLE),
        (NODE, Used(memory_bytes=None, tasks=1)),
    ],
)
def test_what_cannot_be_read_is_not_limited(node: Node, used: Used) -> None:
    wanted = choose(0.5, node, used)
    assert wanted.memory_bytes is None
    assert "cannot be read" in wanted.reasons[Resource.HOST_MEMORY]


def test_cuda_may_map_what_it_does_not_fill_until_the_tree_uses_its_part() -> None:
    def allowance(used: int, data: int) -> int | None:
        memory = TreeMemory(used_bytes=used, data_bytes={1: data})
        return memory.allowance(1, 4 * GIB, bounded=True, room_bytes=CUDA_ROOM_BYTES)

    assert allowance(GIB, GIB) == 4 * GIB + CUDA_ROOM_BYTES
    assert allowance(GIB, 10 * GIB) == 13 * GIB + CUDA_ROOM_BYTES
    assert allowance(4 * GIB, 10 * GIB) == 10 * GIB
    assert allowance(5 * GIB, 10 * GIB) == 10 * GIB
