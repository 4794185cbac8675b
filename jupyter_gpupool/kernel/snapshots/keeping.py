"""What is done after saving: the pool is told, old automatic snapshots go, and their bytes are given back.

Rules of this module: nobody waits for it, it happens in a thread; bytes are given back seldom, and never
while somebody else writes to the store. What cannot be done now is owed, and done after a later save.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.snapshots.keys import pool_is_near
from jupyter_gpupool.state.background import begin

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.session import Session
    from jupyter_gpupool.state.store.collecting import Collected

#: After the start of a kernel bytes are given back no sooner than this, seconds.
FIRST_SECONDS = 60.0
#: Time between two collections of what no snapshot needs any more, seconds.
COLLECT_SECONDS = 600.0


class Keeper:
    """Keeps a session's store tidy, and the pool informed of it.

    Parameters
    ----------
    session : Session
        Whose snapshots they are.
    clock : callable
        Seconds of a clock that never goes back.
    """

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._telling, self._tidying = threading.Lock(), threading.Lock()
        self._due_at = clock() + FIRST_SECONDS
        self._owed = True  # what kernels before this one owed, nobody knows

    def owe(self) -> None:
        """Note that there may be bytes which no snapshot needs."""
        self._owed = True

    def tidy(self) -> bool:
        """Let old automatic snapshots go, and give back what nobody needs, if it is time for that.

        Returns
        -------
        bool
            Whether any snapshot has gone.

        Raises
        ------
        GPUPoolError, OSError
            If the store cannot be used.
        """
        with self._tidying:
            gone = self._let_go()
            self._give_back()
            return gone

    def _let_go(self) -> bool:
        gone = self._session.store.retain(self._session.retention())
        self._owed = self._owed or bool(gone)
        return bool(gone)

    def _give_back(self) -> None:
        if self._owed and self._clock() >= self._due_at:
            self._collected(self._session.store.gc(wait_seconds=0.0))

    def _collected(self, done: Collected) -> None:
        """Note what a collection has done: nothing is owed, or it is tried again sooner."""
        self._owed = bool(done.reason)
        self._due_at = self._clock() + (FIRST_SECONDS if self._owed else COLLECT_SECONDS)

    def collect(self) -> tuple[Collected, int]:
        """Let old automatic snapshots go, and give back now what nobody needs.

        Returns
        -------
        (Collected, int)
            What was given back, and how many snapshots went.

        Raises
        ------
        GPUPoolError, OSError
            If the store cannot be used.
        """
        with self._tidying:
            store = self._session.store
            gone = store.retain(self._session.retention())
            done = store.gc()
            self._collected(done)
        if gone:
            self.tell_pool()
        return done, len(gone)

    def make_room(self) -> bool:
        """Let go of all automatic snapshots but the newest of each notebook, and give back what they held.

        Returns
        -------
        bool
            Whether there was anything to give back.
        """
        with self._tidying, suppress(GPUPoolError, OSError):  # the next save meets it again, and says so
            store = self._session.store
            gone = store.retain(replace(self._session.retention(), count=1))
            if gone or self._owed:
                done = store.gc(wait_seconds=0.0)
                self._collected(done)
                self.tell_pool()
                return done.freed_bytes > 0
        return False

    def after_save(self) -> None:
        """Tidy up and tell the pool, in a thread."""
        begin(self._after_save, "keeper")

    def after_save_here(self) -> None:
        """Tidy up, and tell the pool once what there is; called by the thread that saved.

        Raises
        ------
        GPUPoolError, OSError
            If the store cannot be used.
        """
        with self._tidying:
            try:
                self._let_go()
            finally:
                self._tell()  # before bytes are given back, which may take a while
            self._give_back()

    def tell_pool(self, *, wait_seconds: float = 0.0) -> None:
        """Tell the pool which snapshots there are, in a thread; wait for that so long at most."""
        if pool_is_near():
            thread = begin(self._tell, "index")
            if thread is not None:
                thread.join(wait_seconds)

    def _after_save(self) -> None:
        with suppress(GPUPoolError, OSError):  # whatever it is, the next save meets it too, and says so
            self.after_save_here()

    def _tell(self) -> None:
        from jupyter_gpupool.kernel.snapshots import index, leftovers

        if not pool_is_near():
            return
        with self._telling:
            try:
                store = self._session.store
                index.tell(index.report(store.url, store.list(), leftovers.is_last))
            except (GPUPoolError, OSError):
                return  # it is told with the next save
