"""The live monitor: the pool and the leases of one process.

Rules of this module: the page reads from the Jupyter server where that has our extension, and asks the kernel
only where it has not, since what a kernel sends counts as its activity; what is shown is never markup from
elsewhere. The static form says when it was taken.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anywidget
import msgspec
import traitlets

from jupyter_gpupool.protocol.documents import PoolDoc
from jupyter_gpupool.widgets.watch import Watch

_STATIC = Path(__file__).parent / "static"
_VIEW = "application/vnd.jupyter.widget-view+json"


class PoolMonitor(anywidget.AnyWidget):  # type: ignore[misc]
    """Utilisation and memory of the pool and of my leases, live.

    Parameters
    ----------
    doc : PoolDoc
        The pool as it is now.
    held : callable
        Returns the ids of the leases of this process.
    watch : Watch
        Reads for it where the page cannot.
    static : callable
        Makes the plain text and the HTML of a snapshot, with the time at which it was taken.
    served : bool
        Whether the page may read the pool from the Jupyter server: it is the same pool.
    small : bool
        One line only.
    """

    _esm = (_STATIC / "monitor.js").read_text(encoding="utf-8")
    _css = (_STATIC / "monitor.css").read_text(encoding="utf-8")
    #: Tells the page's views of one monitor from those of others.
    key = traitlets.Unicode().tag(sync=True)
    small = traitlets.Bool(False).tag(sync=True)
    served = traitlets.Bool(True).tag(sync=True)
    #: The pool as the kernel read it last.
    pool = traitlets.Dict().tag(sync=True)
    #: Milliseconds since the epoch, UTC, at which that was.
    taken_ms = traitlets.Float().tag(sync=True)
    held = traitlets.List(traitlets.Unicode()).tag(sync=True)
    #: Why nothing newer is there, in words; empty when it is.
    trouble = traitlets.Unicode().tag(sync=True)
    #: Set by the page while somebody looks and it needs the kernel to read.
    looking = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        doc: PoolDoc,
        held: Callable[[], list[str]],
        watch: Watch,
        static: Callable[[PoolDoc, datetime], tuple[str, str]],
        *,
        served: bool = True,
        small: bool = False,
    ) -> None:
        self._held = held
        self._watch = watch
        self._fallback = static
        self._taken: tuple[PoolDoc, datetime] = (doc, datetime.now(UTC))
        super().__init__(key=uuid.uuid4().hex, small=small, served=served, **self._shown(doc))
        self.observe(self._look, "looking")

    def _shown(self, doc: PoolDoc) -> dict[str, Any]:
        self._taken = (doc, datetime.now(UTC))
        return {
            "pool": msgspec.to_builtins(doc),
            "taken_ms": self._taken[1].timestamp() * 1000,
            "held": self._held(),
            "trouble": "",
        }

    def _look(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._watch.look(self)
        else:
            self._watch.leave(self)

    def show(self, doc: PoolDoc) -> None:
        """Show what was read: one message to the page."""
        with self.hold_sync():
            for name, value in self._shown(doc).items():
                setattr(self, name, value)

    def fail(self, sentence: str) -> None:
        """Say why nothing newer is there."""
        self.trouble = sentence

    def rest(self) -> None:
        """Say that it is read no more until somebody asks."""
        with self.hold_sync():
            self.trouble = "Paused: this kernel has run nothing for a while."
            self.looking = False

    def close(self) -> None:
        """Close it: nothing is read for it any more."""
        self._watch.leave(self)
        super().close()

    @property
    def fallback(self) -> tuple[str, str]:
        """Plain text and HTML of what was read last, with the time at which that was."""
        return self._fallback(*self._taken)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        text, markup = self.fallback
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"text/plain": text, "text/html": markup, _VIEW: view}
