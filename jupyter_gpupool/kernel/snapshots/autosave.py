"""Saves the state by itself: between cells, in the background, within its share of the kernel's time.

Rules of this module: the namespace is looked at while no cell runs, in the main thread wherever that can be
reached; compressing and writing happen in a thread. A cell pays for two notes of the time. What fails is said
once, and tried again with the next cell; nothing is raised into somebody's cell.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.notices import NoticeBoard, tell
from jupyter_gpupool.kernel.snapshots import engine, firsts, words
from jupyter_gpupool.kernel.snapshots.meter import Nowhere, metered
from jupyter_gpupool.kernel.snapshots.policy import LONGEST_SECONDS, OFF, Before, Pacer, Policy
from jupyter_gpupool.state.background import begin

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.session import Session
    from jupyter_gpupool.state.model import Manifest
    from jupyter_gpupool.state.saving import Staged

#: Pause before another look while the last save is still being written, seconds.
WRITING_SECONDS = 1.0


class Autosaver:
    """Saves the namespace of a session as a policy says.

    Parameters
    ----------
    session : Session
        What is saved, and where.
    say : callable, optional
        Says a sentence to the person at the notebook; by default with the cell that runs, or the next one.
    clock : callable
        Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        session: Session,
        *,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._clock = session, clock
        self._say = say or self._say_with_a_cell
        self._pacer = Pacer(OFF, since=clock())
        self._open = False
        self._running = False
        self._ready = False
        self._began = clock()
        self._by_hand = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing: threading.Thread | None = None
        self._failing = ""
        #: True when the state is to be saved as soon as the cell that runs has ended.
        self._wanted = False
        #: The last snapshot that was taken by itself.
        self.last: Manifest | None = None

    @property
    def policy(self) -> Policy:
        """When the state is saved."""
        return self._pacer.policy

    def set(self, policy: Policy, *, running: bool) -> None:
        """Follow a policy from now on.

        Parameters
        ----------
        policy : Policy
            When to save.
        running : bool
            Whether a cell runs now.
        """
        self._pacer.policy, self._ready = policy, False
        if self._session.shell is None or policy.off is not self._open:
            self._schedule()
            return
        events = self._session.shell.events
        turn = events.unregister if policy.off else events.register
        turn("pre_run_cell", self._cell_starts)
        turn("post_run_cell", self._cell_ends)
        self._open, self._running, self._began = not policy.off, running, self._clock()
        self._schedule()

    def saved_by_hand(self) -> None:
        """Note that somebody saved: what has changed since is nothing."""
        self._by_hand = True

    # --- between cells ---

    def _cell_starts(self, *_: object) -> None:
        self._running, self._began = True, self._clock()
        self._cancel_timer()

    def _cell_ends(self, *_: object) -> None:
        self._running = False
        self._loop = _running_loop() or self._loop
        if not self._ready:
            engine.get_ready_soon()
            self._ready = True
        if self._by_hand:
            self._by_hand = False
            self._pacer.saved(self._clock(), 0.0)
        else:
            self._pacer.cell_ended(self._clock() - self._began)
        if self._wanted:
            self._wanted = False
            self._save(self._clock() + LONGEST_SECONDS)
        else:
            self._look()

    def _look(self) -> None:
        """Save, if that is due and nothing runs; else look again when it is."""
        self._timer = None
        due = self._pacer.due_at()
        if due is None or self._running or not _in_main_thread():
            return
        now = self._clock()
        if due <= now and not self.busy:
            self._save(now + self._pacer.budget_seconds(now))
        self._schedule()

    def _schedule(self) -> None:
        """Look again when something is due, where this process has a loop to wait with."""
        self._cancel_timer()
        due = self._pacer.due_at()
        loop = _running_loop()
        if due is not None and loop is not None and not self._running:
            pause = WRITING_SECONDS if self.busy else 0.0
            self._timer = loop.call_later(max(pause, due - self._clock()), self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- saving ---

    @property
    def busy(self) -> bool:
        """Whether what was looked at is still being written."""
        return self._writing is not None and self._writing.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait for what is being written, so long at most; tell whether nothing is any more."""
        if self._writing is not None:
            self._writing.join(seconds)
        return not self.busy

    def _save(self, deadline: float) -> None:
        """Look at the namespace now, and have it written in a thread."""
        began = self._clock()
        with metered("Saving", Nowhere) as meter:
            late = False

            def cancel() -> bool:
                nonlocal late
                late = late or self._clock() >= deadline
                return late or meter.cancel()

            try:
                staged = self._stage(cancel)
            except Exception as error:  # whatever it is: no traceback of ours in somebody's notebook
                now = self._clock()
                if late:
                    self._pacer.cut(now, now - began)
                else:
                    self._pacer.failed(now, now - began)
                    self._failed(error)
                return
        self._pacer.saved(self._clock(), self._clock() - began)
        self._writing = begin(lambda: self._write(staged), "autosave")
        if self._writing is None:  # the interpreter ends
            self._write(staged)

    def _stage(self, cancel: Callable[[], bool]) -> Staged:
        return engine.stage(
            self._session.namespace,
            name=time.strftime("auto_%Y-%m-%d_%H-%M-%S"),
            cancel=cancel,
            most_bytes=self._session.room_bytes(),
            **self._session.about(automatic=True),
        )

    def _write(self, staged: Staged) -> None:
        """Write what was looked at, and let old ones go."""
        try:
            snapshot = staged.write()
            self.last = snapshot.manifest
            self._failing = ""
            self._session.after_save(snapshot.manifest)
            self._session.keeper.after_save_here()
            self._explain(snapshot.manifest)
        except Exception as error:  # whatever it is: no traceback of ours in somebody's notebook
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Say that saving failed; where there was no room, let old ones go for the next try."""
        self._complain(error)
        if isinstance(error, GPUPoolError) and error.code == "store_full":
            begin(self._session.keeper.make_room, "keeper")

    def _explain(self, manifest: Manifest) -> None:
        """Say, the first time that it happens to somebody who did not ask for it, how to end it."""
        if not self._session.chosen and firsts.first_time("autosave"):
            self._say_with_a_cell(words.first_autosave(manifest, self.policy, self._session.store.url))

    def _say_with_a_cell(self, sentence: str) -> None:
        """Say it in the cell that runs, or with the next one."""
        board = NoticeBoard(self._session.shell, running=self._running)
        board.open()
        board.say(sentence)
        board.close()

    def _complain(self, error: Exception) -> None:
        """Say once that saving fails, until it does not any more."""
        kind = type(error).__name__
        if self._failing == kind:
            return
        self._failing = kind
        reason = str(error) if isinstance(error, GPUPoolError) else f"{kind}: {error}"
        self._say(
            f"The state could not be saved by itself: {reason.rstrip('.')}. It is tried again; "
            f"`%gpupool autosave off` ends that."
        )

    # --- when there is no more time ---

    def before_preemption(self, seconds: float) -> str:
        """Save because a lease is taken back in so many seconds; called by a thread that follows the pool.

        Returns
        -------
        str
            What was done, as a sentence; empty when nothing is to be done.
        """
        if Before.PREEMPTION not in self.policy.before or not self._open:
            return ""
        if self._running:
            self._wanted = True
            return "The state is saved as soon as the cell that runs has ended."
        before, done = self.last, threading.Event()
        if self._loop is None or self._loop.is_closed():
            self._save_for(done, seconds / 2)  # at a prompt: nothing but this thread runs
        else:
            self._loop.call_soon_threadsafe(self._save_for, done, seconds / 2)
        done.wait(seconds / 2)
        self.wait(seconds / 4)
        if self.last is None or self.last is before:
            return "The state could not be saved in time; `%gpupool checkpoint` saves it."
        return f"The state was saved; `%gpupool restore {self.last.name}` brings it back."

    def _save_for(self, done: threading.Event, seconds: float) -> None:
        """Save now, for somebody who waits; when a cell has begun meanwhile, after that."""
        if self._running:
            self._wanted = True
        else:
            self._save(self._clock() + seconds)
        done.set()

    def before_shutdown(self, seconds: float) -> bool:
        """Save because the kernel ends, within so many seconds; tell whether that was done."""
        if Before.SHUTDOWN not in self.policy.before:
            return False
        deadline = self._clock() + seconds
        before = self.last
        self._say = tell  # there is no next cell
        self.wait(seconds)
        self._save(deadline)
        self.wait(max(0.0, deadline - self._clock()))
        return self.last is not None and self.last is not before


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop of the main thread, where a cell ends inside it; None where there is none."""
    if not _in_main_thread():
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
