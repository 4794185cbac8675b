"""Somebody in a simulation: where they are in their visits, and what they hold.

Rule of this module: it keeps what is so now; what happens next is decided by `engine`.
"""

from __future__ import annotations

from enum import Enum

from jupyter_gpupool.sim.measures import OwnerTime
from jupyter_gpupool.sim.workload import Person


class Mood(Enum):
    """What somebody does."""

    #: Is not there.
    AWAY = "away"
    #: Is there, and no cell runs.
    PAUSES = "pauses"
    #: Wants to run a cell, and has no share.
    WAITS = "waits"
    #: Runs a cell.
    RUNS = "runs"


class Guest:
    """One person while a workload is played.

    Attributes
    ----------
    person : Person
        Who it is.
    visit : Visit
        The visit that it is, or that comes next.
    number_of_visit, cell : int
        Which visit that is, and which of its cells is next (or runs).
    epoch : int
        Grows whenever what was planned is void.
    lease_id : str
        The lease that they wait for, hold or give back; empty for none.
    held : bool
        Whether it is attached.
    milli : int
        Compute of the lease, thousandths of devices of the kind that is measured.
    mood : Mood
        What they do.
    wanted_ms : int or None
        Since when a cell has wanted to run; None when none waits.
    ran_from_ms, idle_from_ms : int
        When the cell that runs began, and when the last one ended.
    said_busy : bool or None
        What the pool was told last of the share; None when nothing.
    resumes : bool
        Whether what the next cell needs has to be loaded again.
    time : OwnerTime
        How long the cells of its owner, whoever runs them, ran and waited.
    """

    __slots__ = (
        *("cell", "epoch", "held", "idle_from_ms", "lease_id", "milli", "mood", "number", "number_of_visit"),
        *("person", "ran_from_ms", "resumes", "said_busy", "time", "visit", "wanted_ms"),
    )

    def __init__(self, person: Person, number: int, time: OwnerTime) -> None:
        self.person = person
        self.visit = person.visits[0]
        self.time = time
        self.number = number
        self.number_of_visit = self.cell = self.epoch = self.milli = 0
        self.ran_from_ms = self.idle_from_ms = 0
        self.lease_id = ""
        self.held = self.resumes = False
        self.mood = Mood.AWAY
        self.wanted_ms: int | None = None
        self.said_busy: bool | None = None

    def __lt__(self, other: Guest) -> bool:
        return self.number < other.number

    def go_on(self) -> bool:
        """Turn to the visit after this one; return whether there is any."""
        following = self.number_of_visit + 1
        if following == len(self.person.visits):
            return False
        self.number_of_visit, self.visit = following, self.person.visits[following]
        return True

    @property
    def following(self) -> tuple[int, int] | None:
        """The cell that comes next; None after the last one."""
        cells = self.visit.cells
        return cells[self.cell] if self.cell < len(cells) else None

    @property
    def holder(self) -> str:
        """What the pool knows the kernel by: another one in each visit."""
        return f"{self.number}-{self.number_of_visit}"

    def begin_visit(self) -> None:
        """Come."""
        self.cell, self.mood, self.wanted_ms, self.resumes = 0, Mood.PAUSES, None, False

    def next_epoch(self) -> None:
        """Make void what was planned."""
        self.epoch += 1
