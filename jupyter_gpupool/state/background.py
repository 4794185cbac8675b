"""Work that nobody waits for: a thread that keeps no process from ending.

Rule of this module: a thread that comes too late, because the interpreter ends, is not started, and that is
no error.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


def begin(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Begin work in a thread, outside of whatever context there is here.

    Parameters
    ----------
    work : callable
        What is done.
    name : str
        Of the thread, after the name of this package.

    Returns
    -------
    Thread or None
        None where no thread can be started any more, because the interpreter ends.
    """
    run = contextvars.Context().run  # else Python 3.14 gives it variables that cells set
    thread = threading.Thread(target=run, args=(work,), name=f"jupyter_gpupool {name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
