"""``jupyter gpupool``: what people and service managers type.

Rule of this module: it names the commands; what they do is in `jupyter_gpupool.cli`.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

from jupyter_gpupool.cli.base import Command
from jupyter_gpupool.cli.config import ConfigApp
from jupyter_gpupool.cli.doctor.app import DoctorApp
from jupyter_gpupool.cli.drain import DrainApp, UndrainApp
from jupyter_gpupool.cli.joining import CertsApp, TokenApp
from jupyter_gpupool.cli.journal import JournalApp
from jupyter_gpupool.cli.kernelspec import KernelspecApp
from jupyter_gpupool.cli.notebook import NotebookApp
from jupyter_gpupool.cli.proposals import ProposalsApp
from jupyter_gpupool.cli.run import RunApp
from jupyter_gpupool.cli.serve import AgentApp, ServeApp, StopApp
from jupyter_gpupool.cli.simulate import SimulateApp
from jupyter_gpupool.cli.status import SelfTestApp, StatusApp, WhyApp
from jupyter_gpupool.cli.usage import UsageApp
from jupyter_gpupool.cluster.settings import PoolAgent
from jupyter_gpupool.service.settings import PoolService


class GPUPoolApp(Command):
    """Fractions of this machine's accelerators, leased to notebooks."""

    name = "jupyter-gpupool"
    description = __doc__
    classes: ClassVar[Any] = [PoolService, PoolAgent]
    subcommands: ClassVar[Any] = {
        "serve": (ServeApp, "Run a pool service."),
        "agent": (AgentApp, "Run the agent of this machine."),
        "status": (StatusApp, "Show the pool: devices, leases, queue."),
        "simulate": (SimulateApp, "Try out a pool, its rules and its users before they are there."),
        "run": (RunApp, "Run a command under what a lease has on this node."),
        "proposals": (ProposalsApp, "Show what would have to move for requests to fit."),
        "why": (WhyApp, "Say why a request waits, and for how long, probably."),
        "drain": (DrainApp, "Take no new leases on a node, and end those that are there after a grace."),
        "undrain": (UndrainApp, "Take leases on a node again."),
        "doctor": (DoctorApp, "Find the usual misconfigurations, and say how to mend each."),
        "usage": (UsageApp, "Report device-hours: held, and really used."),
        "journal": (JournalApp, "Back the pool's journal up, and restore it."),
        "selftest": (SelfTestApp, "Prove on this machine what is promised of leases."),
        "kernelspec": (KernelspecApp, "Add entries to the kernel picker whose kernels run with a share."),
        "notebook": (NotebookApp, "Say in a notebook itself which share its kernel runs with."),
        "config": (ConfigApp, "Show every setting and where it came from."),
        "token": (TokenApp, "Make, list and revoke the tokens with which machines join."),
        "certs": (CertsApp, "Make, show and rotate certificates, and revoke those of nodes."),
        "stop": (StopApp, "Stop this user's pool."),
    }


def main(argv: list[str] | None = None) -> None:
    """Run ``jupyter gpupool``."""
    try:
        GPUPoolApp.launch_instance(argv)
    except BrokenPipeError:  # whoever read it has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(130)
