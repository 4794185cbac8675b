"""The options of commands that write down which share kernels run with.

Rule of this module: what is said here is what `protocol.wanted` reads.
"""

from __future__ import annotations

from typing import ClassVar

from traitlets import Unicode

from jupyter_gpupool.cli.base import Command


class ShareOptions(Command):
    """Base of these commands."""

    #: Options of the command line that have the name of their trait.
    named: ClassVar[tuple[str, ...]] = ("memory", "kind", "device", "model", "wait")

    memory = Unicode("", help="Of the device's memory; else the same part as of the device: 16GiB.").tag(
        config=True
    )
    kind = Unicode("", help="Of which kind of device: cuda or cpu; else of any.").tag(config=True)
    device = Unicode("", help="Of which device, by name; else of any.").tag(config=True)
    model = Unicode("", help="Of which model, by words of its name: A100.").tag(config=True)
    wait = Unicode("", help="For how long a start waits for the share; else 10m.").tag(config=True)
    hold = Unicode("", help="For how long the share is held; else until the kernel ends.").tag(config=True)

    def entry(self, share: str) -> dict[str, str]:
        """Return what is written down: the share, and what was said of it."""
        said = {"share": share, **{name: getattr(self, name) for name in self.named}, "for": self.hold}
        return {name: value for name, value in said.items() if value}
