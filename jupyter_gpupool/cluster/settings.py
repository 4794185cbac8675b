"""What an administrator decides about the devices of a node.

Rule of this module: traits are read once, when the agent starts, into one frozen value; what cannot work is
refused then, with its place.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from traitlets import Bool, Dict, Enum, Float, Int, List, Unicode
from traitlets.config import Configurable

from jupyter_gpupool.backends.rules import Action, HostLimits, LauncherKind, NodeRules, Sharing, SharingRule
from jupyter_gpupool.cluster.sharing_file import from_list, read_file
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import Resource, Strength


class BadAgentSettings(GPUPoolError):
    """Raised when settings of an agent cannot work. The message names the trait."""

    code = "bad_agent_settings"


class PoolAgent(Configurable):
    """The agent of a node: how its devices are shared, and what happens to who takes more than his share."""

    default_sharing = Enum(
        [each.value for each in Sharing],
        Sharing.AUTO.value,
        help="How GPUs are shared that no rule is about: “auto” is the strongest that is possible, “mig” only"
        " by MIG instances, “mps” by CUDA MPS, “timeslice” by the driver (a fraction buys no compute then).",
    ).tag(config=True)
    sharing = List(
        Dict(),
        help="Rules by model; the first that matches counts: [{'model': '*A100*', 'sharing': 'mps'},"
        " {'model': '*T4*', 'sharing': 'timeslice', 'frameworks': {'pytorch': '>=1.7'}}]. With frameworks,"
        " only kernels that have one of them may time-slice there.",
    ).tag(config=True)
    sharing_file = Unicode(
        "", help="A YAML file with further such rules, which come after those of “sharing”."
    ).tag(config=True)
    require_isolation = List(
        Unicode(),
        help="A lease on a GPU that would get less is refused: any of “memory:hard”, “memory:soft”,"
        " “compute:hard”, “compute:soft”.",
    ).tag(config=True)
    unmanaged = Enum(
        [Action.SHOW.value, Action.WARN.value, Action.END.value],
        Action.SHOW.value,
        help="What is done about processes on a GPU without a lease, also of kernels that released theirs and"
        " still hold memory: they are shown, also written to the log (“warn”), or ended after grace_seconds"
        " (“end”).",
    ).tag(config=True)
    over_limit = Enum(
        [Action.WARN.value, Action.INTERRUPT.value, Action.END.value],
        Action.WARN.value,
        help="What is done about a holder that uses more memory of a GPU than its share for grace_seconds:"
        " its owner is told, what it runs is interrupted, or its processes are ended.",
    ).tag(config=True)
    warn_percent = Float(
        90.0, min=1.0, max=100.0, help="From which part of its memory share on a holder is warned, percent."
    ).tag(config=True)
    grace_seconds = Float(
        30.0, min=0.0, help="For how long a holder may exceed its share, or a process use a GPU without one."
    ).tag(config=True)
    mps_multiuser = Bool(
        False,
        help="Run one MPS server for all users, so that leases of several owners can be on a GPU at once. It"
        " drops the isolation between them.",
    ).tag(config=True)
    mps_control = Unicode("", help="Path of nvidia-cuda-mps-control; empty to look for it on the path.").tag(
        config=True
    )
    exclusive_process = Bool(
        False,
        help="You keep the GPUs in EXCLUSIVE_PROCESS mode, so that only MPS can use them. Only then MPS is"
        " called a hard limit.",
    ).tag(config=True)
    host_limits = Enum(
        [each.value for each in HostLimits],
        HostLimits.PROPORTIONAL.value,
        help="Processor, main memory and processes of who holds a share of a GPU: “proportional” is the same"
        " part of the node as of the GPU, “none” is no limit.",
    ).tag(config=True)
    most_processes = Int(
        32768,
        min=64,
        help="How many processes and threads the holder of a whole GPU may have; a share has its part.",
    ).tag(config=True)
    sample_seconds = Float(
        1.0, min=0.2, help="Pause between two readings of the GPUs while somebody watches, seconds."
    ).tag(config=True)
    ignored_xids = List(
        Int(),
        help="XID errors that say nothing about a GPU's health, beside those that NVIDIA calls harmless.",
    ).tag(config=True)
    xid_quiet_seconds = Float(
        600.0, min=1.0, help="For how long a GPU takes no new leases after a fatal XID error, seconds."
    ).tag(config=True)

    launcher = Enum(
        [each.value for each in LauncherKind],
        LauncherKind.SAME_USER.value,
        help="How processes are started on the node for owners: “same-user” as the agent's own user, for that"
        " user only; “setuid” as the owner's account, by an agent that runs as root; “sudo” by sudo;"
        " “systemd-run” as a transient unit of systemd, by an agent that runs as root.",
    ).tag(config=True)
    accounts = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="OS user by owner, for owners who are not called like their account: {'ann@example.org': 'ann'}."
        " “*” is everybody who is not named; an empty account refuses. Accounts of the system (uid below"
        " 1000) are refused whatever stands here.",
    ).tag(config=True)
    launch_environment = List(
        Unicode(),
        help="Patterns of variables that a process on the node may be given beside those of language, Python,"
        " Jupyter and numeric libraries: ['MY_SITE_*'].",
    ).tag(config=True)
    require_encryption = Bool(
        False,
        help="Kernels that the network could listen to, because they have no CurveZMQ, are not started on the"
        " node. Otherwise their users are told with the first cell.",
    ).tag(config=True)
    socket_directory = Unicode(
        "",
        help="Where the agent's socket lies when processes of other users show their tickets there; they must"
        " be able to enter it. Needed with every launcher but “same-user”.",
    ).tag(config=True)

    def rules(self) -> NodeRules:
        """Return everything as one frozen value.

        Raises
        ------
        BadAgentSettings, BadSharingRules
            If it cannot work.
        """
        return NodeRules(
            sharing=self._sharing(),
            require_isolation=tuple(_requirement(text) for text in self.require_isolation),
            unmanaged=Action(self.unmanaged),
            over_limit=Action(self.over_limit),
            warn_percent=self.warn_percent,
            grace_seconds=self.grace_seconds,
            mps_multiuser=self.mps_multiuser,
            mps_control=self.mps_control,
            exclusive_process=self.exclusive_process,
            host_limits=HostLimits(self.host_limits),
            most_processes=self.most_processes,
            sample_seconds=self.sample_seconds,
            ignored_xids=tuple(self.ignored_xids),
            xid_quiet_seconds=self.xid_quiet_seconds,
            launcher=self._launcher(),
            accounts=tuple(sorted(self.accounts.items())),
            launch_environment=tuple(self.launch_environment),
            socket_directory=self.socket_directory,
            require_encryption=self.require_encryption,
        )

    def _launcher(self) -> LauncherKind:
        """Read how processes are started; other users need a socket that they can reach."""
        launcher = LauncherKind(self.launcher)
        if launcher is not LauncherKind.SAME_USER and not self.socket_directory:
            raise BadAgentSettings(
                f"PoolAgent.launcher is “{launcher.value}”, so processes of other users need a socket that"
                " they can reach, and PoolAgent.socket_directory names none.",
                hint="Set it to a directory of the agent's that everybody may enter: /run/gpupool-agent.",
            )
        return launcher

    def _sharing(self) -> tuple[SharingRule, ...]:
        """Put the rules in the order in which they count."""
        rules = from_list(self.sharing, "PoolAgent.sharing")
        if self.sharing_file:
            rules += read_file(Path(self.sharing_file).expanduser())
        if self.default_sharing != Sharing.AUTO.value:
            rules += (SharingRule(model="*", sharing=Sharing(self.default_sharing)),)
        return rules


def dump_rules(rules: NodeRules) -> str:
    """Write rules as one line of JSON, for the agent that a service starts."""
    return msgspec.json.encode(rules).decode()


def load_rules(text: str) -> NodeRules:
    """Read such a line.

    Raises
    ------
    BadAgentSettings
        If it is none.
    """
    try:
        return msgspec.json.decode(text, type=NodeRules)
    except msgspec.DecodeError as error:
        raise BadAgentSettings(f"--rules cannot be read: {error}.") from error


def _requirement(text: str) -> tuple[Resource, Strength]:
    """Read “memory:hard”.

    Raises
    ------
    BadAgentSettings
        If it is something else.
    """
    resource, _, strength = text.partition(":")
    resources, strengths = (Resource.MEMORY, Resource.COMPUTE), (Strength.HARD, Strength.SOFT)
    possible = {f"{one.value}:{two.value}" for one in resources for two in strengths}
    if text not in possible:
        raise BadAgentSettings(
            f"PoolAgent.require_isolation has “{text}”, which is no requirement.",
            hint=f"Use any of {', '.join(sorted(possible))}.",
        )
    return Resource(resource), Strength(strength)
