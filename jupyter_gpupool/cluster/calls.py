"""The one door through which an agent calls its backends.

Rule of this module: whatever a backend raises comes out as one of our errors, so that a fault of one device
never ends the agent that looks after all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jupyter_gpupool.backends.base import BackendError
from jupyter_gpupool.core.errors import GPUPoolError

P = ParamSpec("P")
T = TypeVar("T")


def call(method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a backend.

    Raises
    ------
    GPUPoolError
        What the backend raised; a `BackendError` around what it should not have raised.
    """
    try:
        return method(*args, **kwargs)
    except GPUPoolError:
        raise
    except Exception as error:
        raise BackendError(
            f"The backend failed: {type(error).__name__}: {error}.", hint="The agent's log says more."
        ) from error
