"""What the sidebar is told of this server's kernels.

Rule of this module: it holds facts and tells who listens; it starts nothing and waits for nothing.

Our provisioner fills it, not the server's ``kernel_actions`` events: the event bus has no event for a kernel
whose restarts failed, knows nothing of a kernel's command line, and a failure in one of its listeners is lost
in a task. The provisioner sees each start, each end, and has the kernel's manager at hand for the "dead"
callback. A kernel that another provisioner runs is not listed: nothing is known about it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jupyter_gpupool.server.environments import Environment


class KernelDoc(msgspec.Struct, kw_only=True, frozen=True):
    """A kernel as the sidebar sees it."""

    kernel_id: str
    #: True when ``%gpupool`` is there: our package is installed where the kernel runs.
    installed: bool
    language: str
    #: What installs it there; empty when it is installed, or nobody can tell where "there" is.
    install_command: str


class KernelRoster:
    """The kernels of this server that run under our provisioner.

    Parameters
    ----------
    on_change : callable
        Called, with nothing, after each change.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._kernels: dict[str, KernelDoc] = {}

    def started(self, kernel_id: str, environment: Environment, language: str) -> None:
        """Note that a kernel started (also: again)."""
        doc = KernelDoc(
            kernel_id=kernel_id,
            installed=environment.installed,
            language=language,
            install_command=environment.install_command,
        )
        if self._kernels.get(kernel_id) != doc:
            self._kernels[kernel_id] = doc
            self._on_change()

    def ended(self, kernel_id: str) -> None:
        """Note that a kernel is gone for good."""
        if self._kernels.pop(kernel_id, None) is not None:
            self._on_change()

    @property
    def kernels(self) -> list[KernelDoc]:
        """The kernels, in the order in which they started."""
        return list(self._kernels.values())
