"""What was claimed, and what came of it.

Rule of this module: pure data; the order of claims is the order in which they were run.
"""

from __future__ import annotations

from enum import Enum

import msgspec

#: Version of the JSON that is printed.
FORMAT = 1


class Outcome(Enum):
    """What came of a claim."""

    #: It was run, and it is so.
    PROVED = "proved"
    #: It was run, and it is not so.
    FAILED = "failed"
    #: It cannot be shown on this machine.
    NOT_POSSIBLE = "not possible here"


class ClaimDoc(msgspec.Struct, kw_only=True, frozen=True):
    """One claim about one device."""

    #: The device's name ("cuda0"); "machine" for none.
    device: str
    #: How it was shared meanwhile ("mps"); empty where there is only one way.
    sharing: str
    #: Stable name: ``memory.past.driver``.
    name: str
    #: The claim, a sentence without its full stop.
    claim: str
    outcome: Outcome
    #: What was seen, or why nothing could be.
    detail: str
    seconds: float = 0.0


class RungDoc(msgspec.Struct, kw_only=True, frozen=True):
    """Whether one mechanism is possible on one device."""

    device: str
    rung: str
    possible: bool
    #: Why not, one clause.
    reason: str = ""


class SelfTestDoc(msgspec.Struct, kw_only=True):
    """All of it."""

    format: int = FORMAT
    version: str
    #: UTC, ISO 8601.
    when: str
    #: What the machine is: kernel, driver, devices' models by name.
    machine: dict[str, str]
    rungs: list[RungDoc]
    claims: list[ClaimDoc]
    seconds: float

    def count(self, outcome: Outcome) -> int:
        """Count the claims with an outcome."""
        return sum(claim.outcome is outcome for claim in self.claims)

    @property
    def status(self) -> int:
        """Exit status: 1 when a claim failed."""
        return 1 if self.count(Outcome.FAILED) else 0
