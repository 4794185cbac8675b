"""The isolation ladder: which mechanisms a share of a GPU gets, and why not others.

Rules of this module: pure, a function of what device and holder allow, what is asked for, and what an
administrator decided; each resource has one mechanism that answers for it; what was not possible is told with
its reason, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from jupyter_gpupool.backends.nvidia.gpu import GPU
from jupyter_gpupool.backends.nvidia.rungs.base import RungName
from jupyter_gpupool.backends.rules import Sharing
from jupyter_gpupool.core.leases import Resource, Strength, Verified
from jupyter_gpupool.protocol.documents import IsolationDoc

#: What every time-sliced lease says.
TIMESLICE_NOTE = (
    "Under time-slicing a fraction does not buy compute: all processes on the device get equal parts of its"
    " time, whatever their shares."
)
#: Compute modes of NVML that concern sharing.
EXCLUSIVE, PROHIBITED = "exclusive_process", "prohibited"
#: How people call the rungs.
TITLES = {
    RungName.MIG: "MIG",
    RungName.WHOLE: "the whole device",
    RungName.DRIVER: "the driver's memory limits",
    RungName.MPS: "MPS",
    RungName.FRAMEWORK: "framework caps",
}
_STRENGTHS = (Strength.NONE, Strength.SOFT, Strength.HARD)


class Mode(Enum):
    """How the leases on a device share it."""

    #: The device is a MIG instance: nobody else is on it.
    MIG = "mig"
    #: All through one MPS server.
    MPS = "mps"
    #: The driver's time-slicing.
    TIMESLICE = "timeslice"
    #: One lease at a time.
    EXCLUSIVE = "exclusive"

    @property
    def whole_only(self) -> bool:
        """True where a lease gets the device whole or not at all."""
        return self in {Mode.MIG, Mode.EXCLUSIVE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a device allows, for a holder where there is one.

    Attributes
    ----------
    gpu : GPU
        The device.
    reasons : mapping of RungName to str
        Of each rung that this node has, why it is not possible, one clause; empty when it is.
    """

    gpu: GPU
    reasons: Mapping[RungName, str]

    def possible(self, rung: RungName) -> bool:
        """Say whether a rung is possible."""
        return self.reasons.get(rung, "it is not there") == ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a share gets.

    Attributes
    ----------
    mode : Mode
        How the device is shared.
    memory, compute : RungName or None
        Which rung answers for the resource; None for none.
    beside : tuple of RungName
        Rungs that are put too, but answer for nothing.
    because : tuple of str
        Sentences about stronger rungs that were not possible.
    because_memory : tuple of str
        The same about rungs that limit memory only.
    """

    mode: Mode
    memory: RungName | None
    compute: RungName | None
    beside: tuple[RungName, ...] = ()
    because: tuple[str, ...] = ()
    because_memory: tuple[str, ...] = ()

    @property
    def rungs(self) -> tuple[RungName, ...]:
        """All rungs, each once, in the order in which they are put."""
        return tuple(dict.fromkeys(name for name in (self.memory, self.compute, *self.beside) if name))

    def answers(self) -> dict[Resource, RungName | None]:
        """Return which rung answers for each resource."""
        return {Resource.MEMORY: self.memory, Resource.COMPUTE: self.compute}


def mode_of(able: Capabilities, sharing: Sharing) -> Mode:
    """Return how the leases on a device share it."""
    if able.gpu.is_mig:
        return Mode.MIG
    if sharing is Sharing.MIG:
        return Mode.EXCLUSIVE
    if sharing is not Sharing.TIMESLICE and able.possible(RungName.MPS):
        return Mode.MPS
    # without a server one process has such a device for itself
    return Mode.EXCLUSIVE if able.gpu.compute_mode == EXCLUSIVE else Mode.TIMESLICE


def choose(able: Capabilities, sharing: Sharing, *, whole: bool, mode: Mode | None = None) -> Plan:
    """Choose the rungs of a share.

    Parameters
    ----------
    able : Capabilities
        What device and holder allow.
    sharing : Sharing
        What an administrator decided for this model.
    whole : bool
        True for a share of the whole device.
    mode : Mode, optional
        How the device is shared, where that is known already; what a holder cannot take does not change it.
    """
    mode = mode or mode_of(able, sharing)
    if mode is Mode.MIG:
        return Plan(mode=mode, memory=RungName.MIG, compute=RungName.MIG)
    if mode is Mode.EXCLUSIVE:
        return Plan(mode=mode, memory=RungName.WHOLE, compute=RungName.WHOLE, because=_exclusive(sharing))
    return _shared(able, mode, sharing, whole=whole)


def _shared(able: Capabilities, mode: Mode, sharing: Sharing, *, whole: bool) -> Plan:
    """Choose for a device that several leases share."""
    driver = able.possible(RungName.DRIVER)
    mps = mode is Mode.MPS and able.possible(RungName.MPS)
    no_driver = () if driver else (_reason(able, RungName.DRIVER),)
    # who decided for time-slicing knows that there is no MPS
    no_mps = () if mps or sharing is Sharing.TIMESLICE else (_reason(able, RungName.MPS),)
    memory = RungName.DRIVER if driver else RungName.MPS if mps else RungName.FRAMEWORK
    compute = RungName.MPS if mps else None
    if whole and not mps:  # nobody else's lease fits beside it
        memory, compute = RungName.DRIVER if driver else RungName.WHOLE, RungName.WHOLE
    # a whole device may become a share; under the driver's limit, frameworks see a device of that size
    capped = memory in {RungName.MPS, RungName.WHOLE}
    beside = (RungName.FRAMEWORK,) if capped else ()
    return Plan(
        mode=mode,
        memory=memory,
        compute=compute,
        beside=beside,
        because=no_mps,
        because_memory=no_driver,
    )


def _reason(able: Capabilities, rung: RungName) -> str:
    title = TITLES[rung]
    return f"{title[0].upper()}{title[1:]}: not possible, {able.reasons.get(rung, 'it is not there')}."


def _exclusive(sharing: Sharing) -> tuple[str, ...]:
    if sharing is Sharing.MIG:
        return ("An administrator lets this model be shared by MIG only, and it is not in MIG mode.",)
    if sharing is Sharing.TIMESLICE:
        return (
            "An administrator wants this model time-sliced, but it is in EXCLUSIVE_PROCESS mode: it has one"
            " process at a time.",
        )
    return ("The device is in EXCLUSIVE_PROCESS mode and MPS is not possible: it has one process at a time.",)


# --- what a lease says ------------------------------------------------------------------------------


def timeslice(note: str = "") -> IsolationDoc:
    """Return what a lease says of its compute where nothing limits it."""
    return IsolationDoc(
        resource=Resource.COMPUTE,
        strength=Strength.NONE,
        mechanism="time-slicing",
        limit="none",
        verified=Verified.READ_BACK,
        note=f"{TIMESLICE_NOTE} {note}".strip(),
    )


def combine(plan: Plan, docs: Mapping[RungName, Sequence[IsolationDoc]]) -> list[IsolationDoc]:
    """Return one document for each resource, from what each rung says.

    The rung that answers for a resource speaks, also when it says that nothing is in force.
    """
    result = []
    for resource, name in plan.answers().items():
        extra = plan.because_memory if resource is Resource.MEMORY else ()
        why = " ".join([*extra, *plan.because])
        spoken = next((doc for doc in docs.get(name, ()) if doc.resource is resource), None) if name else None
        if spoken is None:
            result.append(timeslice(why) if resource is Resource.COMPUTE else _nothing(resource, why))
        else:
            note = " ".join(part for part in (spoken.note, why, _left(plan, spoken)) if part)
            result.append(msgspec.structs.replace(spoken, note=note))
    return result


def _left(plan: Plan, spoken: IsolationDoc) -> str:
    """Say what still holds when a proof failed."""
    if spoken.strength is Strength.NONE and RungName.FRAMEWORK in plan.beside:
        return "The caps of frameworks stay, and its use is watched."
    return ""


def _nothing(resource: Resource, why: str) -> IsolationDoc:
    return IsolationDoc(
        resource=resource,
        strength=Strength.NONE,
        mechanism="none",
        limit="none",
        verified=Verified.READ_BACK,
        note=why,
    )


def unmet(docs: Sequence[IsolationDoc], required: Sequence[tuple[Resource, Strength]]) -> str:
    """Say which isolation that a node requires a lease has not, one sentence; empty when it has all."""
    have = {doc.resource: doc for doc in docs}
    for resource, strength in required:
        doc = have.get(resource)
        if doc is not None and _STRENGTHS.index(doc.strength) >= _STRENGTHS.index(strength):
            continue
        got = f"{doc.strength.value} ({doc.mechanism})" if doc else "none"
        why = f" {doc.note}" if doc and doc.note else ""
        return (
            f"This node requires {resource.value}:{strength.value}, and the lease has"
            f" {resource.value}:{got}.{why}"
        )
    return ""
