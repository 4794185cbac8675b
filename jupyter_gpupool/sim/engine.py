"""Plays a workload: people come, ask, compute, pause and leave, with a clock that jumps.

Rule of this module: people know nothing of the pool but what they have; what they do is in the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from jupyter_gpupool.core.config import PoolConfig
from jupyter_gpupool.core.effects import WriteDown
from jupyter_gpupool.core.leases import EndReason
from jupyter_gpupool.sim.host import Host
from jupyter_gpupool.sim.measures import OwnerTime, Played
from jupyter_gpupool.sim.people import Guest, Mood
from jupyter_gpupool.sim.pools import SimPool
from jupyter_gpupool.sim.workload import DAY_MS, Workload

#: How often somebody is told how far it is, in steps.
_TELL_EVERY = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Habits:
    """What people and the place do around a pool, beside its own rules.

    Attributes
    ----------
    share_milli : int or None
        What everybody asks for; None for what the workload says.
    cull_ms : int or None
        After how long without a cell a kernel is culled, and its lease with it; None for never.
    resume_ms : int
        How much longer a cell takes that finds its share gone: what it needs has to be loaded again.
    stretch : float
        How much longer cells run than the workload says.
    """

    share_milli: int | None = None
    cull_ms: int | None = None
    resume_ms: int = 10_000
    stretch: float = 1.0


class Engine:
    """One run.

    Parameters
    ----------
    pool : SimPool
        The devices.
    workload : Workload
        Who comes.
    config : PoolConfig
        The rules.
    habits : Habits or None
        What happens around them; the usual when None.
    begins_ms : int or None
        UTC at the beginning, milliseconds since the epoch; None for a Monday.
    drain_ms : int
        For how long after the horizon it goes on while requests from before it wait.
    on_write : callable or None
        Is given every transition.
    tell : callable or None
        Is told now and then which part of the time until the horizon is over.
    """

    def __init__(
        self,
        pool: SimPool,
        workload: Workload,
        config: PoolConfig,
        habits: Habits | None = None,
        *,
        begins_ms: int | None = None,
        drain_ms: int = DAY_MS,
        on_write: Callable[[WriteDown], None] | None = None,
        tell: Callable[[float], None] | None = None,
    ) -> None:
        self._habits = habits or Habits()
        self._stretch = self._habits.stretch
        milli = self._habits.share_milli
        sizes = workload.sizes(pool.kind) if milli is None else {milli: 1}
        self.host = Host(pool, config, sizes, workload.horizon_ms, self, on_write, begins_ms)
        self._played = self.host.played
        self._horizon_ms = workload.horizon_ms
        self._until_ms = workload.horizon_ms + drain_ms
        self._release_idle_ms = config.release_idle_ms
        #: Where nothing is ever taken back, nobody has to say what they do.
        self._talks = config.reclaim_idle_ms is not None or config.release_idle_ms is not None
        self._tell = tell
        self._ticked_ms = -1
        self._entered = 0
        self._heap: list[tuple[int, int, Callable[[Guest], None], Guest, int]] = []
        for number, person in enumerate(workload.people):
            guest = Guest(person, number, self._played.owners.setdefault(person.owner, OwnerTime()))
            self._heap.append((person.visits[0].after_ms, number, self._come, guest, 0))
        self._entered = len(self._heap)
        heapify(self._heap)

    # --- time -----------------------------------------------------------------------------------

    def run(self) -> Played:
        """Play until whatever was asked for before the horizon has had its answer, or time is over."""
        steps, heap, host = 0, self._heap, self.host
        while (at_ms := self._next_ms()) is not None and at_ms <= self._until_ms:
            if at_ms > max(self._horizon_ms, host.now_ms) and not host.open:
                break
            host.move_to(at_ms)
            if heap and heap[0][0] == at_ms:
                _, _, what, guest, epoch = heappop(heap)
                if guest.epoch == epoch:
                    what(guest)
            else:
                self._ticked_ms = at_ms
                host.tick()
            steps += 1
            if self._tell is not None and steps % _TELL_EVERY == 0:
                self._tell(min(1.0, at_ms / self._horizon_ms))
        self._played.counts.steps = steps
        self._close()
        return self._played

    def _next_ms(self) -> int | None:
        """Return when something happens next: to somebody, or a deadline of the pool."""
        due = self.host.due_ms()
        if due is not None and due <= self._ticked_ms:
            due = self._ticked_ms + 1000  # what is overdue, and stays so, is looked at again
        if not self._heap:
            return due if self.host.open else None
        first = self._heap[0][0]
        return first if due is None or first <= due else max(due, self.host.now_ms)

    def _later(self, after_ms: int, what: Callable[[Guest], None], guest: Guest) -> None:
        self._entered += 1
        heappush(self._heap, (self.host.now_ms + after_ms, self._entered, what, guest, guest.epoch))

    def _close(self) -> None:
        """Count who still waits as having waited until now, and cells that run as far as they are."""
        host, played = self.host, self._played
        host.move_to(max(host.now_ms, self._horizon_ms))
        played.ended_ms = host.now_ms
        for guest, asked_ms in host.unanswered():
            played.counts.unserved += 1
            played.requests.unserved.append(host.now_ms - asked_ms)
            self._stop_waiting(guest, served=False)
        for guest in host.holding():
            if guest.mood is Mood.RUNS:
                guest.time.ran_ms += host.now_ms - guest.ran_from_ms

    # --- people ---------------------------------------------------------------------------------

    def _come(self, guest: Guest) -> None:
        """Begin a visit; nobody comes any more after the horizon."""
        if self.host.now_ms <= self._horizon_ms:
            guest.begin_visit()
            self._plan(guest)
            self._ask(guest)

    def _ask(self, guest: Guest) -> None:
        want, milli = guest.visit.want, self._habits.share_milli
        self.host.ask(guest, want if milli is None else replace(want, compute_milli=milli))

    def _plan(self, guest: Guest) -> None:
        """Have the next cell begin after its pause, or the visit end."""
        guest.next_epoch()
        following = guest.following
        if following is not None:
            self._later(following[0], self._want_cell, guest)
        else:
            self._later(guest.visit.stay_ms, self._leave, guest)
        if self._habits.cull_ms is not None:
            self._plan_cull(guest, self._habits.cull_ms)

    def _plan_cull(self, guest: Guest, after_ms: int) -> None:
        if guest.held:
            self._later(after_ms, self._cull, guest)

    def _want_cell(self, guest: Guest) -> None:
        """Run the next cell where the share is held; else wait for it."""
        if guest.wanted_ms is None:
            guest.wanted_ms = self.host.now_ms
        if guest.held:
            self._run_cell(guest)
            return
        guest.mood = Mood.WAITS
        if not guest.lease_id:
            guest.resumes = True
            self._played.counts.came_back += 1
            self._ask(guest)

    def _run_cell(self, guest: Guest) -> None:
        self._stop_waiting(guest, served=True)
        guest.mood, guest.ran_from_ms = Mood.RUNS, self.host.now_ms
        runs_ms = guest.visit.cells[guest.cell][1]
        if self._stretch != 1:
            runs_ms = round(runs_ms * self._stretch)
        if guest.resumes:
            runs_ms, guest.resumes = runs_ms + self._habits.resume_ms, False
        self._played.meter.use(guest.milli, guest.ran_from_ms)
        guest.next_epoch()
        self._later(runs_ms, self._finish_cell, guest)
        if self._talks:
            self.host.say(guest, busy=True)

    def _finish_cell(self, guest: Guest) -> None:
        now_ms = self.host.now_ms
        self._played.meter.use(-guest.milli, now_ms)
        guest.time.ran_ms += now_ms - guest.ran_from_ms
        guest.mood, guest.idle_from_ms = Mood.PAUSES, now_ms
        guest.cell += 1
        self._plan(guest)
        following = guest.following
        pause_ms = following[0] if following is not None else guest.visit.stay_ms
        if self._talks and pause_ms:
            self.host.say(guest, busy=False)

    def _leave(self, guest: Guest) -> None:
        """End the visit, and come again where there is another."""
        guest.next_epoch()
        guest.mood, guest.wanted_ms, guest.resumes = Mood.AWAY, None, False
        self.host.give_back(guest)
        if guest.go_on():
            self._later(guest.visit.after_ms, self._come, guest)

    def _cull(self, guest: Guest) -> None:
        """Shut an idle kernel down; what comes later in the visit begins with a new one."""
        if guest.held and guest.mood is Mood.PAUSES:
            self._played.counts.culled += 1
            self.host.give_back(guest, EndReason.KERNEL_SHUTDOWN)

    def _stop_waiting(self, guest: Guest, *, served: bool) -> None:
        """Note how long a cell has waited."""
        if guest.wanted_ms is None:
            return
        if guest.wanted_ms <= self._horizon_ms:
            waited_ms = self.host.now_ms - guest.wanted_ms
            (self._played.cells.served if served else self._played.cells.unserved).append(waited_ms)
            guest.time.waited_ms += waited_ms
        guest.wanted_ms = None

    # --- what the host tells --------------------------------------------------------------------

    def attached(self, guest: Guest) -> None:
        """Begin what waited for the share, once the pool has finished what it is doing."""
        guest.idle_from_ms = self.host.now_ms
        if guest.visit.pinned:
            self._later(0, self._pin, guest)
        if guest.mood is Mood.WAITS:
            guest.next_epoch()
            self._later(0, self._want_cell, guest)
            return
        if self._talks:
            self._later(0, self._say_idle, guest)
        if self._habits.cull_ms is not None:
            self._plan_cull(guest, self._habits.cull_ms)

    def _pin(self, guest: Guest) -> None:
        if guest.held:
            self.host.pin(guest)

    def _say_idle(self, guest: Guest) -> None:
        if guest.mood is Mood.PAUSES:
            self.host.say(guest, busy=False)

    def share_lost(self, guest: Guest, reason: EndReason | None) -> None:
        """Go on without a share; a cell that runs is cut off, and begins anew when there is one."""
        ran = guest.mood is Mood.RUNS
        counts, now_ms = self._played.counts, self.host.now_ms
        if reason is EndReason.RECLAIMED:
            idle_ms, long_ms = now_ms - guest.idle_from_ms, self._release_idle_ms
            if not ran and long_ms is not None and idle_ms >= long_ms:
                counts.released_idle += 1
            else:
                counts.taken += 1
                counts.taken_in_use += ran
        if ran:
            self._played.meter.use(-guest.milli, now_ms)
            counts.lost_ms += now_ms - guest.ran_from_ms
            guest.mood = Mood.PAUSES
            guest.next_epoch()
            self._later(0, self._want_cell, guest)

    def not_served(self, guest: Guest, reason: EndReason | None) -> None:
        """End the visit of somebody who gets nothing, unless it was they who left."""
        if guest.mood is Mood.AWAY:
            return
        self._stop_waiting(guest, served=False)
        guest.next_epoch()
        self._later(0, self._leave, guest)
