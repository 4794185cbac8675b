"""``jupyter gpupool notebook``: the share that a notebook itself asks for.

Rules of this module: nothing in the file changes but our entry in its metadata; the file is checked before
and afterwards, and replaced at once and whole; what is wrong with the share is said now, and not when the
kernel starts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from traitlets import Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, Command
from jupyter_gpupool.cli.notebook_text import NotebookText
from jupyter_gpupool.cli.share_options import ShareOptions
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.protocol.notebook_file import METADATA


class _NotebookCommand(Command):
    """Reads the notebook that is named first."""

    #: What else is named, for people.
    names = "NOTEBOOK"

    def words(self, number: int) -> list[str]:
        """Return what was named.

        Raises
        ------
        InvalidValue
            If it is more or less than that.
        """
        given = list(self.extra_args)
        if len(given) != number:
            command = self.name.replace("jupyter-gpupool-notebook-", "")
            raise InvalidValue(f"Write: jupyter gpupool notebook {command} {self.names}.", hint="See --help.")
        return given

    def tell(self, sentence: str) -> int:
        """Say what was done."""
        sys.stdout.write(sentence + "\n")
        return 0


class SetShareApp(_NotebookCommand, ShareOptions):
    """Have a notebook's kernel run with a share, whoever opens it: it asks for it with its first cell."""

    name = "jupyter-gpupool-notebook-set-share"
    description = __doc__
    names = "NOTEBOOK SHARE"
    examples = """
    jupyter gpupool notebook set-share training.ipynb 0.25
    jupyter gpupool notebook set-share training.ipynb 1 --kind cuda --model A100 --wait 30m
    """
    named = (*ShareOptions.named, "priority")
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        **{name: f"SetShareApp.{name}" for name in named},
        "for": "SetShareApp.hold",
    }
    priority = Unicode("", help="How urgent it is: low, normal or high.").tag(config=True)

    def run(self) -> int:
        """Write it."""
        from jupyter_gpupool.protocol.wanted import read_wanted

        path, share = self.words(2)
        entry = self.entry(share)
        wanted = read_wanted({METADATA: entry}, "notebook")
        text = NotebookText.read(Path(path))
        text.set_metadata(METADATA, entry)
        return self.tell(f"{path} asks for {wanted.words}.")


class ShowApp(_NotebookCommand):
    """Show which share a notebook asks for."""

    name = "jupyter-gpupool-notebook-show"
    description = __doc__

    def run(self) -> int:
        """Print it."""
        from jupyter_gpupool.protocol.wanted import read_wanted

        (path,) = self.words(1)
        entry = NotebookText.read(Path(path)).metadata.get(METADATA)
        if entry is None:
            return self.tell(f"{path} asks for no share.")
        wanted = read_wanted({METADATA: entry}, "notebook")
        rest = ", ".join(f"{name} {value}" for name, value in entry.items() if name not in ("share", "kind"))
        return self.tell(f"{path} asks for {wanted.words}{f' ({rest})' if rest else ''}.")


class UnsetApp(_NotebookCommand):
    """Have a notebook ask for no share any more."""

    name = "jupyter-gpupool-notebook-unset"
    description = __doc__

    def run(self) -> int:
        """Take the entry out."""
        (path,) = self.words(1)
        text = NotebookText.read(Path(path))
        if METADATA not in text.metadata:
            return self.tell(f"{path} asked for no share.")
        text.set_metadata(METADATA, None)
        return self.tell(f"{path} asks for no share any more.")


class NotebookApp(Command):
    """The share that a notebook itself asks for."""

    name = "jupyter-gpupool-notebook"
    description = __doc__
    subcommands: ClassVar[Any] = {
        "set-share": (SetShareApp, "Have its kernel run with a share."),
        "show": (ShowApp, "Show which share it asks for."),
        "unset": (UnsetApp, "Have it ask for none."),
    }
