"""The numbers that indicators and monitor go by.

Rule of this module: frozen; an administrator's additions never make a device look healthier than an XID that
is not the application's own.
"""

from __future__ import annotations

from dataclasses import dataclass

#: XIDs that a faulty or killed program causes on a good GPU (the list of NVIDIA's device plugin): graphics
#: exception, MMU fault, stopped processing, reset channel, preemptive cleanup, video decoder, CTXSW timeout.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
#: XIDs that only announce something which another indicator looks at: row remapping recorded, corrected
#: errors often, contained memory error, link to the processor corrected, recovery action changed.
ANNOUNCING_XIDS = frozenset({63, 92, 94, 121, 154})


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthRules:
    """When a device is degraded or failed, and when it is good again. Durations are seconds.

    Attributes
    ----------
    worse_rounds : int
        So many rounds in a row must be bad before a device is called worse (fatal findings count at once).
    better_rounds : int
        So many rounds in a row must be better before it is called better …
    better_seconds : float
        … and so long must they last.
    quiet_seconds : float
        How long after a fatal XID, or an uncorrected memory error, a device stays failed.
    ignored_xids : tuple of int
        What an administrator adds to `APPLICATION_XIDS`.
    corrected_errors : int
        Corrected memory errors within ``quiet_seconds`` that are too many.
    lifetime_errors : int
        Uncorrected memory errors in a GPU's life that its maker should hear of.
    retired_pages : int
        Retired pages from which the maker exchanges it; from half of them on it is degraded.
    pcie_replays, nvlink_errors : int
        Within a minute, from how many on a link is bad.
    load_percent : float
        From which utilization on a GPU counts as loaded.
    power_part : float
        A power limit below this part of the maker's is worth saying when it slows the GPU down.
    fan_celsius : float
        From which temperature on a fan that stands still is wrong.
    """

    worse_rounds: int = 3
    better_rounds: int = 5
    better_seconds: float = 30.0
    quiet_seconds: float = 600.0
    ignored_xids: tuple[int, ...] = ()
    corrected_errors: int = 1000
    lifetime_errors: int = 10
    retired_pages: int = 60
    pcie_replays: int = 100
    nvlink_errors: int = 100
    load_percent: float = 20.0
    power_part: float = 0.9
    fan_celsius: float = 80.0

    def ignores(self, xid: int) -> bool:
        """Whether an XID says nothing about the GPU."""
        return xid in APPLICATION_XIDS or xid in self.ignored_xids
