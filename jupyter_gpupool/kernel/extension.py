"""Registers ``%gpupool`` in IPython.

Rule of this module: every kernel loads it as it starts, so it imports nothing; the rest comes with the first
use.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_gpupool.kernel.nextcell import with_next_cell
from jupyter_gpupool.protocol.names import ENV_AUTOSAVE, ENV_MOVED, ENV_REATTACH, ENV_SAY, ENV_SLICE

#: The name of the line magic and of the cell magic.
NAME = "gpupool"
#: Section of IPython's configuration that is about snapshots.
_CONFIGURED = "GPUPoolSnapshots"
#: Attribute of the shell under which our matcher is kept.
_MATCHER = "_gpupool_matcher"


class LineMagic:
    """``%gpupool``."""

    __name__ = NAME

    def __call__(self, line: str) -> Any:
        """Run a line."""
        __tracebackhide__ = True
        from jupyter_gpupool.kernel.magics import run_line

        return run_line(line)

    def getdoc(self) -> str:
        """Return what ``%gpupool?`` shows."""
        from jupyter_gpupool.kernel.commands import help_text

        return help_text()


class CellMagic:
    """``%%gpupool``."""

    __name__ = NAME

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: str) -> None:
        """Run a cell under a lease."""
        __tracebackhide__ = True
        from jupyter_gpupool.kernel.magics import run_cell_under_lease

        run_cell_under_lease(self._shell, line, cell)

    def getdoc(self) -> str:
        """Return what ``%%gpupool?`` shows."""
        from jupyter_gpupool.kernel.commands import cell_parser

        return cell_parser().format_help()


def load(ipython: Any) -> None:
    """Register the magics and their completion, and attach again after a kernel's restart."""
    ipython.register_magic_function(LineMagic(), magic_kind="line", magic_name=NAME)
    ipython.register_magic_function(CellMagic(ipython), magic_kind="cell", magic_name=NAME)
    if not hasattr(ipython, _MATCHER):
        _register_completion(ipython)
    if ENV_AUTOSAVE in os.environ or _CONFIGURED in getattr(ipython, "config", ()):
        from jupyter_gpupool.kernel.snapshots.offer import follow_configured

        follow_configured(ipython)
    if sentence := os.environ.pop(ENV_SAY, ""):
        from jupyter_gpupool.kernel.notices import tell_with_first_cell

        tell_with_first_cell(ipython, sentence)
    _look_once(ipython)
    if servers := os.environ.pop(ENV_SLICE, ""):
        from jupyter_gpupool.kernel.slices import take_part

        take_part(ipython, servers)
    if leases := os.environ.pop(ENV_REATTACH, ""):
        from jupyter_gpupool.kernel.reattach import reattach

        reattach(ipython, leases.split(","))


def _look_once(ipython: Any) -> None:
    """With the first cell, see what its kernel before left behind, or had, and what the notebook asks for."""
    moved = os.environ.pop(ENV_MOVED, "")

    def look(info: Any) -> None:
        if moved:
            from jupyter_gpupool.kernel.moved import bring_back

            bring_back(ipython, moved)
        from jupyter_gpupool.kernel.snapshots.offer import offer

        offer(ipython)
        from jupyter_gpupool.kernel.scaled import scale_again

        scale_again(ipython)
        from jupyter_gpupool.kernel.notebook_share import take_share

        take_share(ipython, info)

    with_next_cell(ipython, look)


def _register_completion(ipython: Any) -> None:
    """Offer commands and options on Tab, also for ``x = %gpupool …``, and nothing else with them."""
    completer = getattr(ipython, "Completer", None)
    if completer is None:
        return
    from IPython.core.completer import context_matcher

    @context_matcher(identifier="gpupool")  # type: ignore[untyped-decorator]
    def gpupool_matcher(context: Any) -> dict[str, Any]:
        if NAME not in context.text_until_cursor:
            return {"completions": []}
        from jupyter_gpupool.kernel.complete import match

        return match(context)

    completer.custom_matchers.append(gpupool_matcher)
    setattr(ipython, _MATCHER, gpupool_matcher)


def unload(ipython: Any) -> None:
    """Take the magics away again; leases are kept."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop(NAME, None)
    matcher = getattr(ipython, _MATCHER, None)
    if matcher is not None:
        ipython.Completer.custom_matchers.remove(matcher)
        delattr(ipython, _MATCHER)
