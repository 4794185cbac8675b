"""What the owner of a lease is told when it is to be taken back.

Rule of this module: sentences only. Who waits is never named; what keeps the lease is said where there is
anything.
"""

from __future__ import annotations

from jupyter_gpupool.core.entitlement import Ground
from jupyter_gpupool.core.hints import ASK_ANOTHER
from jupyter_gpupool.core.shares import format_duration

#: What helps, by ground.
_KEEP = "Run a cell to keep it."
_SAVE = f"Save what you need; {ASK_ANOTHER}"


def notice_sentence(ground: Ground, idle_ms: int, *, less: bool, own: bool) -> str:
    """Say why a lease is taken back, as what follows a colon, and what helps.

    Parameters
    ----------
    ground : Ground
        Why it may be.
    idle_ms : int
        For how long it has done nothing.
    less : bool
        True when who waits has less than they deserve.
    own : bool
        True when who waits is the same owner.
    """
    idle = f"nothing has run here for {format_duration(idle_ms / 1000)}"
    if ground is Ground.IDLE_LONG:
        return f"{idle}. {_KEEP}"
    if ground is Ground.IDLE:
        who = "another request of yours waits" if own else "somebody waits"
        return f"{who}{' who has less than they deserve' if less and not own else ''}, and {idle}. {_KEEP}"
    if ground is Ground.DESERVED:
        return f"somebody waits who has less than they deserve, and you have more than you deserve. {_SAVE}"
    return f"somebody waits whose request is of a higher priority. {_SAVE}"


def ended_sentence(notice: str) -> str:
    """Say why a lease was taken back, without what would have helped."""
    return f"taken back: {notice.partition('. ')[0]}"
