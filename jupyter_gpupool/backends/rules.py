"""What an administrator decides about the devices of a node.

Rule of this module: frozen values, checked where they are made (`cluster.settings` reads them from
configuration); backends and the agent only read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from jupyter_gpupool.core.leases import Resource, Strength


class Sharing(Enum):
    """How the leases on one GPU share it."""

    #: The strongest that is possible.
    AUTO = "auto"
    #: Its MIG instances only.
    MIG = "mig"
    #: CUDA MPS.
    MPS = "mps"
    #: The driver's time-slicing: a fraction does not buy compute.
    TIMESLICE = "timeslice"


class Action(Enum):
    """What is done about a process that uses what it has no lease for, or more than its lease."""

    #: It is shown.
    SHOW = "show"
    #: Its owner is told.
    WARN = "warn"
    #: What it runs is interrupted.
    INTERRUPT = "interrupt"
    #: It is ended.
    END = "end"


class HostLimits(Enum):
    """How much processor and main memory a holder of a GPU share gets."""

    #: The same part of the node as of all its GPUs.
    PROPORTIONAL = "proportional"
    #: No limit.
    NONE = "none"


class LauncherKind(Enum):
    """How an agent starts processes for owners."""

    #: As its own user, for that user only.
    SAME_USER = "same-user"
    #: As the owner's account; the agent runs as root.
    SETUID = "setuid"
    #: As the owner's account, by sudo.
    SUDO = "sudo"
    #: As the owner's account, as transient units of systemd; the agent runs as root.
    SYSTEMD_RUN = "systemd-run"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharingRule:
    """One rule: the first whose pattern matches a device's model counts.

    Attributes
    ----------
    model : str
        Pattern as `fnmatch` reads it, case ignored: ``*A100*``.
    sharing : Sharing
        How it is shared.
    frameworks : tuple of (name, oldest version)
        Only with these may a kernel time-slice there (("pytorch", "1.7"),); empty for any.
    """

    model: str
    sharing: Sharing
    frameworks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRules:
    """Everything a node's backends are told. Durations are seconds.

    Attributes
    ----------
    sharing : tuple of SharingRule
        By model, first match; AUTO without any.
    require_isolation : tuple of (Resource, Strength)
        A lease that would get less is refused.
    unmanaged : Action
        SHOW, WARN or END: about processes on a device without a lease.
    over_limit : Action
        WARN, INTERRUPT or END: about holders that go on using more than their share.
    warn_percent : float
        From which part of its memory share on a holder is warned.
    grace_seconds : float
        For how long a holder may exceed its share before ``over_limit`` is done.
    mps_multiuser : bool
        Run one MPS server for all users (it drops the isolation between them).
    mps_control : str
        The control program; empty for ``nvidia-cuda-mps-control`` on the path.
    exclusive_process : bool
        True when an administrator keeps GPUs in EXCLUSIVE_PROCESS mode for MPS.
    host_limits : HostLimits
        Processor, main memory and process limits beside a GPU share.
    most_processes : int
        Of a whole device's holder, how many processes and threads it may have; a share has its part.
    sample_seconds : float
        Pause between two readings of the devices.
    ignored_xids : tuple of int
        XID errors that say nothing about a device's health, beside those that NVIDIA calls harmless.
    xid_quiet_seconds : float
        For how long a device stays failed after a fatal XID error.
    launcher : LauncherKind
        How processes are started for owners.
    accounts : tuple of (owner, account)
        Accounts of owners that are not called like them.
    launch_environment : tuple of str
        Patterns of variables that such a process may be given beside the usual ones.
    socket_directory : str
        Where the socket for holders lies when they run as several users; empty for the runtime directory.
    require_encryption : bool
        Whether kernels that the network could listen to are refused.
    """

    sharing: tuple[SharingRule, ...] = ()
    require_isolation: tuple[tuple[Resource, Strength], ...] = ()
    unmanaged: Action = Action.SHOW
    over_limit: Action = Action.WARN
    warn_percent: float = 90.0
    grace_seconds: float = 30.0
    mps_multiuser: bool = False
    mps_control: str = ""
    exclusive_process: bool = False
    host_limits: HostLimits = HostLimits.PROPORTIONAL
    most_processes: int = 32768
    sample_seconds: float = 1.0
    ignored_xids: tuple[int, ...] = ()
    xid_quiet_seconds: float = 600.0
    launcher: LauncherKind = LauncherKind.SAME_USER
    accounts: tuple[tuple[str, str], ...] = ()
    launch_environment: tuple[str, ...] = ()
    socket_directory: str = ""
    require_encryption: bool = False

    def rule_for(self, model: str) -> SharingRule:
        """Return the first rule whose pattern matches a model; AUTO for any kernel without one."""
        for rule in self.sharing:
            if fnmatchcase(model.lower(), rule.model.lower()):
                return rule
        return SharingRule(model="*", sharing=Sharing.AUTO)
