"""The command ``jupyter gpupool doctor``.

Rule of this module: it runs every check, whatever the others found; the exit status says the worst.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from traitlets import Bool

from jupyter_gpupool.cli.base import COMMON_FLAGS, Command
from jupyter_gpupool.service.settings import PoolService

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from jupyter_gpupool.cli.doctor.scene import Finding, Scene


class DoctorApp(Command):
    """Find the usual misconfigurations, and say how to mend each. Changes and starts nothing."""

    name = "jupyter-gpupool-doctor"
    description = __doc__
    examples = """
    jupyter gpupool doctor          # a table; the exit status is 1 if something is wrong
    jupyter gpupool doctor --json   # for programs
    """
    classes: ClassVar[Any] = [PoolService]
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "json": ({"DoctorApp": {"json": True}}, "Print what was found as JSON."),
    }
    json = Bool(False, help="Print what was found as JSON.").tag(config=True)

    def run(self) -> int:
        """Print what every check found; the status is 1 when something is wrong, else 0."""
        from jupyter_gpupool.cli.doctor.scene import Verdict, gather
        from jupyter_gpupool.protocol.codec import encode

        found = examine(gather(PoolService(parent=self).port))
        if self.json:
            sys.stdout.write(encode(found).decode() + "\n")
        else:
            from rich.console import Console

            print_findings(found, Console())
        return int(any(it.verdict is Verdict.WRONG for it in found))


def checks() -> tuple[Callable[[Scene], Finding], ...]:
    """Return all checks, in the order in which they are shown."""
    from jupyter_gpupool.cli.doctor import jupyter, machine, pool

    return (
        *(machine.gpus, machine.mps, machine.control_groups, machine.filesystems, machine.clock),
        *(machine.other_pools, pool.runtime_directory, pool.service, pool.versions, pool.port),
        *(jupyter.server_extension, jupyter.lab_extension, jupyter.provisioner, jupyter.kernels),
    )


def examine(scene: Scene) -> list[Finding]:
    """Run every check."""
    return [check(scene) for check in checks()]


def print_findings(found: list[Finding], console: Console) -> None:
    """Print a table; what to do stands under what is to be mended."""
    from rich.markup import escape
    from rich.table import Table

    from jupyter_gpupool.cli.doctor.scene import Verdict

    styles = {Verdict.FINE: "dim", Verdict.MIND: "yellow", Verdict.WRONG: "bold red"}
    table = Table(box=None, pad_edge=False)
    for column in ("check", "", "state, and how to mend it"):
        table.add_column(column, overflow="fold")
    for it in found:
        said = escape(it.state) + (f"\n→ {escape(it.mend)}" if it.mend else "")
        table.add_row(it.check, f"[{styles[it.verdict]}]{it.verdict.value}[/]", said)
    console.print(table)
    wrong, mind = (sum(it.verdict is verdict for it in found) for verdict in (Verdict.WRONG, Verdict.MIND))
    console.print(f"{len(found)} checks: {wrong} wrong, {mind} to mind.", highlight=False)
