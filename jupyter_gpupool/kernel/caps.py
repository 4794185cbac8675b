"""Caps that frameworks put on themselves: how much of a device's memory each may take in this process.

Rules of this module: nothing is imported and CUDA is never initialised for the sake of a cap; a framework
that is loaded later gets its cap right after its import; what a framework does not take is said in one
sentence and never breaks the user's import; each cap is taken off as it was put on. A cap is no isolation: it
binds one framework in one process.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import ModuleType

from jupyter_gpupool.kernel.frameworkcaps import CAPS, FrameworkCap, refusal
from jupyter_gpupool.kernel.importhook import ImportHook
from jupyter_gpupool.protocol.messages import DeviceCap


class FrameworkCaps:
    """The caps of one lease on all frameworks of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._wanted: tuple[DeviceCap, ...] = ()
        self._frameworks: dict[str, FrameworkCap] = {}
        self._hook = ImportHook(list(CAPS), self._loaded)
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """What the loaded frameworks did not take, one sentence each."""
        late = (cap.problem for cap in self._frameworks.values())
        return [*self._problems.values(), *(sentence for sentence in late if sentence)]

    @property
    def wanted(self) -> tuple[DeviceCap, ...]:
        """The caps that are to be in force; empty when there are none."""
        return self._wanted

    def put(self, wanted: Sequence[DeviceCap]) -> None:
        """Put caps on what is loaded, and on what will be; may be called again with others."""
        with self._lock:
            self._wanted = tuple(wanted)
            if not self._wanted:
                self.take_off()
                return
            self._hook.install()
            for name in CAPS:
                if (module := sys.modules.get(name)) is not None:
                    self._apply(name, module)

    def take_off(self) -> None:
        """Take every cap off, and wait for no further import; doing it twice does nothing."""
        with self._lock:
            self._hook.remove()
            self._wanted = ()
            for name, cap in self._frameworks.items():
                if (module := sys.modules.get(name)) is not None:
                    self._attempt(name, cap, module, ())
            self._frameworks.clear()
            self._problems.clear()

    def _loaded(self, name: str, module: ModuleType) -> None:
        with self._lock:
            if self._wanted:
                self._apply(name, module)

    def _apply(self, name: str, module: ModuleType) -> None:
        cap = self._frameworks.get(name) or CAPS[name]()
        self._frameworks[name] = cap
        self._attempt(name, cap, module, self._wanted)

    def _attempt(
        self, name: str, cap: FrameworkCap, module: ModuleType, wanted: tuple[DeviceCap, ...]
    ) -> None:
        """Let a cap do its work; a framework that is another than we know is a sentence, not an error."""
        self._problems.pop(name, None)
        try:
            cap.put(module, wanted)
        except Exception as error:  # a foreign library's, of any kind
            self._problems[name] = refusal(cap.title, error)
