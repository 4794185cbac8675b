"""Sentences for people that are chosen by a value.

Rule of this module: tables only.
"""

from __future__ import annotations

from jupyter_gpupool.core.leases import EndReason

#: Why a lease ended, for a person.
ENDED = {
    EndReason.RELEASED: "Released.",
    EndReason.CANCELLED: "Cancelled while it waited.",
    EndReason.ABANDONED: "Ended: nobody was listening for it any more.",
    EndReason.WAIT_EXPIRED: "Ended: it waited for as long as was asked for.",
    EndReason.HOLD_EXPIRED: "Ended: it was held for as long as was asked for.",
    EndReason.ATTACH_EXPIRED: "Ended: its holder did not attach in time.",
    EndReason.ATTACH_REFUSED: "Ended: its holder could not be put under the limits.",
    EndReason.RESTART_EXPIRED: "Ended: its kernel did not come back in time.",
    EndReason.HOLDER_EXITED: "Ended: its holder's process ended.",
    EndReason.KERNEL_SHUTDOWN: "Ended: its kernel was shut down.",
    EndReason.KERNEL_DEAD: "Ended: its kernel died, and was not restarted.",
    EndReason.AGENT_LOST: "Ended: the agent of its node was away for too long.",
    EndReason.ADMIN_ENDED: "Ended by an administrator.",
    EndReason.RECLAIMED: "Taken back.",
    EndReason.DRAINED: "Ended: an administrator drained its node.",
}
