"""Indicators of what the driver itself says: lost GPUs, XIDs, the action it asks for, the fabric.

Rule of this module: pure functions; an XID counts for a while, not for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpupool.backends.nvidia.health.rules import ANNOUNCING_XIDS, HealthRules
from jupyter_gpupool.backends.nvidia.health.vitals import (
    FINE,
    Finding,
    Vitals,
    degraded,
    duration,
    failed,
    flag,
)

#: What XIDs mean that take a GPU out of use, one clause each.
_XID_WORDS = {
    48: "a memory error could not be corrected",
    61: "its microcontroller stopped at a breakpoint",
    62: "its microcontroller halted",
    64: "a bad memory row could not be recorded",
    74: "an NVLink failed",
    79: "it fell off the bus",
    95: "a memory error reached programs",
    110: "a security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "an NVLink could not be trained",
    140: "a memory error was not recovered",
    143: "it could not be initialised",
    144: "an NVLink failed",
    145: "an NVLink failed",
}
#: What the driver asks for (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION), and whether work can go on meanwhile.
_ACTIONS = {
    1: ("a reset of the GPU", False),
    2: ("a reboot of the node", False),
    3: ("the peer-to-peer work of this GPU to end", True),
    4: ("its work to end, and a reset", False),
    5: ("the IMEX domain to be recovered", True),
    6: ("a reset of its bus", False),
    7: ("a reboot of the system", False),
}
_NOT_STARTED, _IN_PROGRESS, _COMPLETED = 1, 2, 3


def lost(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the GPU answers at all."""
    if not now.lost:
        return FINE
    return failed(
        f"It does not answer: {now.lost}. It comes back by itself when it does; else reset it or reboot the "
        "node.",
        at_once=True,
    )


def xid(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the driver reported an error of the GPU lately (applications' own do not count)."""
    recent = [it.number for it in now.xids if now.seconds - it.seconds < rules.quiet_seconds]
    counting = [number for number in recent if not rules.ignores(number)]
    fatal = [number for number in counting if number not in ANNOUNCING_XIDS]
    if fatal:
        words = _XID_WORDS.get(fatal[-1], "see NVIDIA's list of XID errors")
        quiet = duration(rules.quiet_seconds)
        return failed(
            f"The driver reported XID {fatal[-1]} ({words}): it comes back after {quiet} without another.",
            at_once=True,
        )
    if counting:
        return degraded(
            f"The driver reported XID {counting[-1]}; nothing needs to be done if it stays alone."
        )
    return FINE


def recovery_action(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether the driver asks for something to be done."""
    action = int(now.values.get("recovery_action", 0))
    if action == 0:
        return FINE
    wanted, usable = _ACTIONS.get(action, (f"recovery action {action}", False))
    sentence = f"The driver asks for {wanted}."
    return degraded(sentence) if usable else failed(sentence)


def fabric(now: Vitals, past: Sequence[Vitals], rules: HealthRules) -> Finding:
    """Whether it has joined the NVSwitch fabric, where there is one."""
    state = int(now.values.get("fabric_state", 0))
    if state in (_NOT_STARTED, _IN_PROGRESS):
        return degraded(
            "It has not joined the NVSwitch fabric: if CUDA does not start, look at nvidia-fabricmanager."
        )
    if state == _COMPLETED and flag(now, "fabric_status"):
        return failed("It could not join the NVSwitch fabric: see the log of nvidia-fabricmanager.")
    if flag(now, "fabric_bandwidth_degraded"):
        return degraded("The NVSwitch fabric gives it less bandwidth than it should.")
    return FINE
