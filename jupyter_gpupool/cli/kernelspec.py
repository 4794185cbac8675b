"""``jupyter gpupool kernelspec``: entries of the kernel picker whose kernels run with a share.

Rule of this module: it writes one ``kernel.json`` where Jupyter looks for them; what is wrong with it is
said now, and not when the first kernel starts.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from traitlets import Bool, Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, COMMON_FLAGS, Command
from jupyter_gpupool.cli.share_options import ShareOptions
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import format_compute, parse_compute

#: Entry point of the provisioner that starts such kernels.
PROVISIONER = "gpupool-node-provisioner"


class KernelspecInstallApp(ShareOptions):
    """Add an entry to the launcher and the kernel picker: a Python that runs where its share is."""

    name = "jupyter-gpupool-kernelspec-install"
    description = __doc__
    examples = """
    jupyter gpupool kernelspec install --share 0.25                     # “Python 3 · pool 0.25”
    jupyter gpupool kernelspec install --share 1 --kind cuda --model A100 --sys-prefix
    jupyter kernelspec remove gpupool-0.25
    """
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        **{
            name: f"KernelspecInstallApp.{name}"
            for name in ("share", *ShareOptions.named, "python", "prefix")
        },
        "for": "KernelspecInstallApp.hold",
        "name": "KernelspecInstallApp.spec_name",
        "display-name": "KernelspecInstallApp.display_name",
    }
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "sys-prefix": (
            {"KernelspecInstallApp": {"sys_prefix": True}},
            "For everybody who uses this Python's environment; else for you.",
        ),
    }
    share = Unicode("", help="The share: 0.25, 1/4, 25%.").tag(config=True)
    python = Unicode(
        "python",
        help="""The Python on the nodes. “python” is the one that the node's agent runs with; a path has to be
        there on every node.""",
    ).tag(config=True)
    spec_name = Unicode("", help="Name of the kernelspec; else gpupool- and the share.").tag(config=True)
    display_name = Unicode("", help="What people see; else “Python 3 · pool” and the share.").tag(config=True)
    prefix = Unicode("", help="Install it below another prefix.").tag(config=True)
    sys_prefix = Bool(False, help="Install it in this Python's environment.").tag(config=True)

    def run(self) -> int:
        """Write it, and say where."""
        from jupyter_client.kernelspec import KernelSpecManager

        spec = self._spec()
        share = format_compute(parse_compute(self.share))
        name = self.spec_name or f"gpupool-{share}"
        prefix = self.prefix or (sys.prefix if self.sys_prefix else "")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "kernel.json").write_text(json.dumps(spec, indent=1, ensure_ascii=False))
            _add_logos(Path(folder))
            try:
                where = KernelSpecManager().install_kernel_spec(
                    folder, name, user=not prefix, prefix=prefix or None
                )
            except (OSError, ValueError) as error:
                raise InvalidValue(
                    f"{name} cannot be installed: {error}.", hint="--name and --prefix say where."
                ) from error
        print(f"“{spec['display_name']}” is in {where}")  # noqa: T201 - this is a command
        return 0

    def _spec(self) -> dict[str, Any]:
        from jupyter_gpupool.protocol.notebook_file import METADATA
        from jupyter_gpupool.protocol.wanted import read_wanted

        if not self.share:
            raise InvalidValue("Which share?", hint="Add --share 0.25, for a quarter of a device.")
        metadata = {
            "debugger": True,
            "supported_encryption": ["curve"],
            "kernel_provisioner": {"provisioner_name": PROVISIONER},
            METADATA: self.entry(self.share),
        }
        wanted = read_wanted(metadata)
        share = format_compute(wanted.request.compute_milli)
        return {
            "argv": [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": self.display_name or f"Python 3 · pool {share}",
            "language": "python",
            "metadata": metadata,
        }


def _add_logos(folder: Path) -> None:
    """Give it the logos of Python, where ipykernel is installed here."""
    try:
        from ipykernel.kernelspec import RESOURCES
    except ImportError:
        return
    for logo in Path(RESOURCES).glob("logo-*"):
        shutil.copy(logo, folder)


class KernelspecApp(Command):
    """Entries of the kernel picker whose kernels run with a share of the pool."""

    name = "jupyter-gpupool-kernelspec"
    description = __doc__
    subcommands: ClassVar[Any] = {
        "install": (KernelspecInstallApp, "Add one."),
    }
