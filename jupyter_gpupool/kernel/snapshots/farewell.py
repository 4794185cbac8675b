"""What is done when a kernel ends: its state is saved if that was asked for, and the next one is told.

Rules of this module: it is bounded, because who shuts a kernel down kills it after a few seconds; a kernel
that ends as somebody wanted leaves nothing to be offered, but what was saved just then. What fails here is
said in the kernel's log, and the kernel ends all the same.

A shutdown reaches a kernel in another thread, which then asks the main loop to stop. What is put into the
loop before that is done first, in the main thread. At a prompt it is asked for before IPython clears the
namespace. `atexit` is too late for both. A signal to end comes without a request, and ends a process that
does not look at it.
"""

from __future__ import annotations

import atexit
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.kernel.notices import tell
from jupyter_gpupool.kernel.snapshots import leftovers

if TYPE_CHECKING:
    from jupyter_gpupool.kernel.snapshots.session import Session

#: How long saving may take when a kernel ends, seconds: a Jupyter server kills one after five.
FAREWELL_SECONDS = 4.0
#: How long telling the pool may take then, seconds.
TELL_SECONDS = 0.5


class Farewell:
    """Notices the end of a process, and does what is to be done then, once.

    Parameters
    ----------
    session : Session
        Whose state it is.
    seconds : float
        How long saving may take.
    """

    def __init__(self, session: Session, *, seconds: float = FAREWELL_SECONDS) -> None:
        self._session = session
        self._seconds = seconds
        self._done = False
        self._saving = False
        self._restarting = False
        self._signals = False
        shell: Any = session.shell
        if hasattr(shell, "kernel"):
            self._listen(shell.kernel)
        elif hasattr(shell, "ask_exit"):
            self._listen_at_prompt(shell)
        atexit.register(self._at_exit)

    def take_signal(self) -> None:
        """Save at SIGTERM, too, where nobody else has anything to do with that."""
        if self._signals or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._told_to_end)
            self._signals = True

    def leave_signal(self) -> None:
        """Let SIGTERM do what it did before."""
        if self._signals and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._signals = False

    def _listen(self, kernel: Any) -> None:
        """Hear of shutdowns before the kernel's loop does."""
        inner = kernel.do_shutdown

        async def do_shutdown(restart: bool) -> Any:
            self._restarting = restart
            loop = getattr(kernel, "io_loop", None)
            if loop is not None:
                loop.add_callback(self.say)
            answer = inner(restart)
            return await answer if inspect.isawaitable(answer) else answer

        kernel.do_shutdown = do_shutdown

    def _listen_at_prompt(self, shell: Any) -> None:
        """Hear of ``exit`` and of the end of input before IPython clears the namespace."""
        inner = shell.ask_exit

        def ask_exit() -> None:
            self.say()
            inner()

        shell.ask_exit = ask_exit

    def say(self) -> None:
        """Do what is to be done at the end; nothing when it was."""
        if self._done or os.getpid() != self._session.pid:
            return
        self._done = self._saving = True
        saved = False
        try:
            if not self._restarting:
                saved = self._session.autosaver.before_shutdown(self._seconds)
            if not saved:
                self._forget()
        except (GPUPoolError, OSError) as error:
            tell(f"The state was not saved when this kernel ended: {error}")
        finally:
            self._saving = False

    def _forget(self) -> None:
        """Leave nothing to be offered."""
        notebook = self._session.where.notebook
        if notebook:
            leftovers.remove(notebook, self._session.pid)
        if self._session.newest:
            self._session.keeper.tell_pool(wait_seconds=TELL_SECONDS)

    def _at_exit(self) -> None:
        """Leave nothing to be offered; there is nothing to save any more: IPython has cleared it."""
        if not self._done and os.getpid() == self._session.pid:
            self._done = True
            self._forget()

    def _told_to_end(self, number: int, _: Any) -> None:
        """Save, then let the signal do what it would have done."""
        if self._saving:
            return  # who shuts a kernel down sends it when that takes long: there is a bound to it
        if not self._done:
            self.say()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
