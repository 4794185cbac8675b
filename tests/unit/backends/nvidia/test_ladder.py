"""The ladder, as a table of cases."""

from __future__ import annotations

import dataclasses

import pytest

from jupyter_gpupool.backends.nvidia import ladder
from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.ladder import Capabilities, Mode, choose
from jupyter_gpupool.backends.nvidia.rungs.base import RungName
from jupyter_gpupool.backends.rules import Sharing
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc

A100 = GPU(
    uuid="GPU-1",
    name="cuda0",
    model="NVIDIA A100-SXM4-80GB",
    memory_bytes=80 * 2**30,
    multiprocessors=108,
    pci_bus_id="00000000:3B:00.0",
    driver="615.71",
    compute_mode="default",
)
EXCLUSIVE = dataclasses.replace(A100, compute_mode="exclusive_process")
INSTANCE = dataclasses.replace(A100, uuid="MIG-1", name="cuda0-mig0", parent_uuid="GPU-1", parent_milli=285)

MIG, WHOLE, DRIVER, MPS, FRAMEWORK = (
    RungName.MIG,
    RungName.WHOLE,
    RungName.DRIVER,
    RungName.MPS,
    RungName.FRAMEWORK,
)
AUTO, ONLY_MIG, ONLY_MPS, SLICED = Sharing.AUTO, Sharing.MIG, Sharing.MPS, Sharing.TIMESLICE

# device    sharing    possible          whole  | mode            memory     compute  beside
TABLE = [
    # --- MIG instances: the hardware's, whatever else is possible
    (INSTANCE, AUTO, {DRIVER, MPS}, True, Mode.MIG, MIG, MIG, ()),
    (INSTANCE, SLICED, {MPS}, True, Mode.MIG, MIG, MIG, ()),
    (INSTANCE, ONLY_MPS, {MPS}, True, Mode.MIG, MIG, MIG, ()),
    (INSTANCE, ONLY_MIG, set(), True, Mode.MIG, MIG, MIG, ()),
    # --- a GPU, the strongest that works
    (A100, AUTO, {DRIVER, MPS}, False, Mode.MPS, DRIVER, MPS, ()),
    (A100, AUTO, {MPS}, False, Mode.MPS, MPS, MPS, (FRAMEWORK,)),
    (A100, AUTO, {DRIVER}, False, Mode.TIMESLICE, DRIVER, None, ()),
    (A100, AUTO, set(), False, Mode.TIMESLICE, FRAMEWORK, None, ()),
    # --- all of it
    (A100, AUTO, {DRIVER, MPS}, True, Mode.MPS, DRIVER, MPS, ()),
    (A100, AUTO, {MPS}, True, Mode.MPS, MPS, MPS, (FRAMEWORK,)),
    (A100, AUTO, {DRIVER}, True, Mode.TIMESLICE, DRIVER, WHOLE, ()),
    (A100, AUTO, set(), True, Mode.TIMESLICE, WHOLE, WHOLE, (FRAMEWORK,)),
    # --- an administrator wants MPS: as AUTO, also when it is not there (and then says so)
    (A100, ONLY_MPS, {DRIVER, MPS}, False, Mode.MPS, DRIVER, MPS, ()),
    (A100, ONLY_MPS, set(), False, Mode.TIMESLICE, FRAMEWORK, None, ()),
    # --- an administrator wants time-slicing: no MPS, but memory limits
    (A100, SLICED, {DRIVER, MPS}, False, Mode.TIMESLICE, DRIVER, None, ()),
    (A100, SLICED, {MPS}, False, Mode.TIMESLICE, FRAMEWORK, None, ()),
    (A100, SLICED, {MPS}, True, Mode.TIMESLICE, WHOLE, WHOLE, (FRAMEWORK,)),
    # --- an administrator wants MIG: a GPU that has no instances is not shared
    (A100, ONLY_MIG, {DRIVER, MPS}, True, Mode.EXCLUSIVE, WHOLE, WHOLE, ()),
    # --- EXCLUSIVE_PROCESS: with MPS it is shared, without one process has it
    (EXCLUSIVE, AUTO, {MPS}, False, Mode.MPS, MPS, MPS, (FRAMEWORK,)),
    (EXCLUSIVE, AUTO, {DRIVER}, True, Mode.EXCLUSIVE, WHOLE, WHOLE, ()),
    (EXCLUSIVE, SLICED, {MPS}, True, Mode.EXCLUSIVE, WHOLE, WHOLE, ()),
]


def able(gpu: GPU, possible: set[RungName]) -> Capabilities:
    always = {MIG, WHOLE, FRAMEWORK}
    reasons = {name: "" if name in possible | always else f"{name.value} is missing" for name in RungName}
    return Capabilities(gpu=gpu, reasons=reasons)


def named(case: tuple[GPU, Sharing, set[RungName], bool, *tuple[object, ...]]) -> str:
    """Name a row of the table."""
    gpu, sharing, possible, whole, *_ = case
    rungs = "+".join(sorted(rung.value for rung in possible)) or "none"
    return f"{gpu.name}-{gpu.compute_mode}-{sharing.value}-{rungs}-{'whole' if whole else 'part'}"


@pytest.mark.parametrize(
    ("gpu", "sharing", "possible", "whole", "mode", "memory", "compute", "beside"),
    TABLE,
    ids=[named(case) for case in TABLE],
)
def test_the_table(
    gpu: GPU,
    sharing: Sharing,
    possible: set[RungName],
    whole: bool,
    mode: Mode,
    memory: RungName,
    compute: RungName | None,
    beside: tuple[RungName, ...],
) -> None:
    plan = choose(able(gpu, possible), sharing, whole=whole)
    assert (plan.mode, plan.memory, plan.compute, plan.beside) == (mode, memory, compute, beside)


def test_the_table_has_every_sharing_with_every_mode_that_it_can_have() -> None:
    assert {(sharing, mode) for _, sharing, _, _, mode, *_ in TABLE} == {
        (AUTO, Mode.MIG),
        (AUTO, Mode.MPS),
        (AUTO, Mode.TIMESLICE),
        (AUTO, Mode.EXCLUSIVE),
        (ONLY_MPS, Mode.MIG),
        (ONLY_MPS, Mode.MPS),
        (ONLY_MPS, Mode.TIMESLICE),
        (SLICED, Mode.MIG),
        (SLICED, Mode.TIMESLICE),
        (SLICED, Mode.EXCLUSIVE),
        (ONLY_MIG, Mode.MIG),
        (ONLY_MIG, Mode.EXCLUSIVE),
    }


def test_a_rung_that_was_not_possible_is_named_with_its_reason() -> None:
    plan = choose(able(A100, set()), AUTO, whole=False)
    assert plan.because_memory == ("The driver's memory limits: not possible, driver is missing.",)
    assert plan.because == ("MPS: not possible, mps is missing.",)
    best = choose(able(A100, {DRIVER, MPS}), AUTO, whole=False)
    assert best.because + best.because_memory == ()
    # an administrator who wants time-slicing knows that there is no MPS
    assert choose(able(A100, {DRIVER}), SLICED, whole=False).because == ()


def test_a_holder_that_cannot_take_mps_leaves_the_device_in_its_mode() -> None:
    plan = choose(able(A100, set()), AUTO, whole=False, mode=Mode.MPS)
    assert (plan.mode, plan.memory, plan.compute) == (Mode.MPS, FRAMEWORK, None)


def doc(
    resource: Resource,
    strength: Strength,
    mechanism: str,
    verified: Verified = Verified.PENDING,
    note: str = "",
) -> IsolationDoc:
    return IsolationDoc(
        resource=resource,
        strength=strength,
        mechanism=mechanism,
        limit="20 GiB",
        verified=verified,
        note=note,
    )


def test_each_resource_has_one_isolation_and_the_rung_that_answers_for_it_speaks() -> None:
    plan = choose(able(A100, {MPS}), AUTO, whole=False)
    memory, compute = ladder.combine(
        plan,
        {
            MPS: [
                doc(Resource.MEMORY, Strength.SOFT, "MPS"),
                doc(Resource.COMPUTE, Strength.SOFT, "MPS active thread percentage"),
            ],
            FRAMEWORK: [doc(Resource.MEMORY, Strength.SOFT, "framework caps")],
        },
    )
    assert (memory.resource, memory.mechanism) == (Resource.MEMORY, "MPS")
    assert "driver is missing" in memory.note
    assert (compute.resource, compute.mechanism) == (Resource.COMPUTE, "MPS active thread percentage")


def test_a_failed_proof_is_told_and_what_still_holds() -> None:
    plan = choose(able(A100, {MPS}), AUTO, whole=False)
    failed = doc(Resource.MEMORY, Strength.NONE, "MPS", note="CUDA runs without MPS.")
    memory, compute = ladder.combine(plan, {MPS: [failed]})
    assert memory.strength is Strength.NONE
    assert memory.note.startswith("CUDA runs without MPS.")
    assert memory.note.endswith("The caps of frameworks stay, and its use is watched.")
    assert compute.mechanism == "time-slicing"


def test_every_time_sliced_lease_says_that_a_fraction_buys_no_compute() -> None:
    plan = choose(able(A100, set()), AUTO, whole=False)
    _, compute = ladder.combine(plan, {FRAMEWORK: [doc(Resource.MEMORY, Strength.SOFT, "framework caps")]})
    assert (compute.strength, compute.mechanism) == (Strength.NONE, "time-slicing")
    assert "a fraction does not buy compute" in compute.note
    assert "MPS: not possible" in compute.note
    assert "memory limits" not in compute.note


@pytest.mark.parametrize(
    ("required", "sentence"),
    [
        ((), ""),
        (((Resource.MEMORY, Strength.SOFT),), ""),
        (
            ((Resource.MEMORY, Strength.HARD),),
            "This node requires memory:hard, and the lease has memory:soft (framework caps).",
        ),
        (
            ((Resource.COMPUTE, Strength.SOFT),),
            "This node requires compute:soft, and the lease has compute:none (time-slicing).",
        ),
        (
            ((Resource.PROCESSES, Strength.SOFT),),
            "This node requires processes:soft, and the lease has processes:none.",
        ),
    ],
)
def test_what_a_node_requires_is_compared_with_what_a_lease_has(
    required: tuple[tuple[Resource, Strength], ...], sentence: str
) -> None:
    docs = [doc(Resource.MEMORY, Strength.SOFT, "framework caps"), ladder.timeslice()]
    found = ladder.unmet(docs, required)
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)
