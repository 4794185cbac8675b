"""What people may choose when they start a server: shares, and how long to wait for one.

Rules of this module: pure; what came from anybody is merged with what was not said first, and validated last,
by full matches; a refusal says what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import WHOLE_MILLI, format_compute, format_duration, parse_compute
from jupyter_gpupool.protocol.documents import PoolDoc, UsageDoc

#: Names of our fields, in forms and in a server's ``user_options``.
SHARE, KIND, WAIT = "gpupool_share", "gpupool_kind", "gpupool_wait"
#: “No share”, as a choice.
NOTHING = "0"
#: How a number of minutes is written.
_MINUTES = re.compile(r"\d{1,4}", re.ASCII)


class BadChoice(GPUPoolError):
    """Raised when somebody chose what is not offered. The message says what is."""

    code = "bad_choice"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody chose.

    Attributes
    ----------
    compute_milli : int
        Thousandths of a device.
    kind : DeviceKind
        Of which kind.
    wait_seconds : float
        How long to wait for it.
    """

    compute_milli: int
    kind: DeviceKind
    wait_seconds: float


@dataclass(frozen=True, kw_only=True)
class Offers:
    """What an administrator offers.

    Attributes
    ----------
    shares : sequence of str
        The shares, as people write them; “0” is none.
    default : str
        Which of them is chosen if nobody chooses.
    kinds : sequence of str
        Of which kinds of device; the first is the default.
    most_wait_minutes : int
        How long a server may wait for its share.
    default_wait_minutes : int
        How long it does if nobody chooses.

    Raises
    ------
    BadChoice
        If that contradicts itself.
    """

    shares: Sequence[str] = (NOTHING, "0.25", "0.5", "1")
    default: str = NOTHING
    kinds: Sequence[str] = (DeviceKind.CUDA.value,)
    most_wait_minutes: int = 30
    default_wait_minutes: int = 5
    _milli: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the shares once."""
        milli = {text: 0 if text == NOTHING else parse_compute(text) for text in self.shares}
        object.__setattr__(self, "_milli", milli)
        if self.default not in milli:
            raise BadChoice(f"hub.Offers has the default “{self.default}”, which is none of its shares.")
        if not self.kinds or not set(self.kinds) <= {kind.value for kind in DeviceKind}:
            listed = ", ".join(kind.value for kind in DeviceKind)
            raise BadChoice(f"hub.Offers has kinds {list(self.kinds)}; there are {listed}.")
        if not 0 <= self.default_wait_minutes <= self.most_wait_minutes:
            raise BadChoice("hub.Offers has a default_wait_minutes that is not within most_wait_minutes.")

    def read(self, options: Mapping[str, Any]) -> Wish | None:
        """Read what somebody chose; None when that is no share.

        Parameters
        ----------
        options : mapping
            A server's ``user_options``, from anybody: a form, a REST request, an earlier start. What is not
            ours in it is left alone.

        Raises
        ------
        BadChoice
            If it is not offered.
        """
        defaults = {SHARE: self.default, KIND: self.kinds[0], WAIT: str(self.default_wait_minutes)}
        given = {name: _text(options[name]) for name in defaults if name in options}
        chosen = defaults | given
        if chosen[SHARE] not in self._milli:
            raise BadChoice(f"This share is not offered. Choose one of {', '.join(self.shares)}.")
        if chosen[KIND] not in self.kinds:
            raise BadChoice(f"This kind of device is not offered. Choose one of {', '.join(self.kinds)}.")
        waits = _MINUTES.fullmatch(chosen[WAIT]) is not None
        if not waits or int(chosen[WAIT]) > self.most_wait_minutes:
            raise BadChoice(f"A server may wait for 0 to {self.most_wait_minutes} minutes.")
        compute_milli = self._milli[chosen[SHARE]]
        if not compute_milli:
            return None
        kind = DeviceKind(chosen[KIND])
        return Wish(compute_milli=compute_milli, kind=kind, wait_seconds=int(chosen[WAIT]) * 60.0)

    def from_form(self, fields: Mapping[str, Sequence[Any]]) -> dict[str, str]:
        """Take our fields out of a form's, as they are: they are validated when they are applied."""
        return {name: _text(fields[name][0]) for name in (SHARE, KIND, WAIT) if fields.get(name)}

    def form(self, pool: PoolDoc | None, usage: Sequence[UsageDoc], problem: str = "") -> str:
        """Write our part of the form, as HTML.

        Parameters
        ----------
        pool : PoolDoc or None
            The pool as this person sees it; None where it does not answer.
        usage : sequence of UsageDoc
            Their usage, with their quotas.
        problem : str
            Why there is no pool.
        """
        kind = DeviceKind(self.kinds[0])
        choices = "".join(self._choice(text, kind, pool, usage) for text in self.shares)
        kinds = "".join(f'<option value="{escape(it)}">{escape(it)}</option>' for it in self.kinds)
        note = escape(problem or (waiting_note(pool, kind) if pool else ""))
        return (
            '<div class="form-group mb-3"><label for="gpupool-share">Share of a device</label>'
            f'<select class="form-control" id="gpupool-share" name="{SHARE}">{choices}</select>'
            f'<div class="form-text" role="status">{note}</div></div>'
            '<div class="form-group mb-3"><label for="gpupool-kind">Kind of device</label>'
            f'<select class="form-control" id="gpupool-kind" name="{KIND}">{kinds}</select></div>'
            '<div class="form-group mb-3"><label for="gpupool-wait">Wait for it, minutes</label>'
            f'<input class="form-control" id="gpupool-wait" name="{WAIT}" type="number" min="0"'
            f' max="{self.most_wait_minutes}" value="{self.default_wait_minutes}"></div>'
        )

    def _choice(self, text: str, kind: DeviceKind, pool: PoolDoc | None, usage: Sequence[UsageDoc]) -> str:
        milli, chosen = self._milli[text], " selected" if text == self.default else ""
        if not milli:
            return f'<option value="{escape(text)}"{chosen}>none</option>'
        left = quota_left_milli(usage, kind)
        barred = left is not None and milli > left
        if barred:
            said = f"more than your quota leaves ({format_compute(left or 0)})"
        elif pool is not None:
            said = "free now" if milli <= most_free_milli(pool, kind) else "waits"
        else:
            said = ""
        shown = f"{text} – {said}" if said else text
        disabled = " disabled" if barred else ""
        return f'<option value="{escape(text)}"{chosen}{disabled}>{escape(shown)}</option>'


def most_free_milli(pool: PoolDoc, kind: DeviceKind) -> int:
    """Return the largest share of one device that is free now."""
    free = (it.free_compute_milli for it in pool.devices if it.kind is kind and it.offered)
    return max(free, default=0)


def quota_left_milli(usage: Iterable[UsageDoc], kind: DeviceKind) -> int | None:
    """Return how much more a person may have; None for no limit."""
    left = [
        round(quota.left * WHOLE_MILLI)
        for doc in usage
        for quota in doc.quotas
        if quota.what == "compute" and quota.kind in (kind, None)
    ]
    return max(0, min(left)) if left else None


def waiting_note(pool: PoolDoc, kind: DeviceKind) -> str:
    """Say what is free, who waits, and when the next lease ends at the latest, as far as that is known."""
    free = most_free_milli(pool, kind)
    waiting = sum(1 for entry in pool.queue if entry.kind in (kind, None))
    ends = [
        it.expires_seconds
        for it in pool.leases
        if it.kind is kind and it.state is LeaseState.ACTIVE and it.expires_seconds is not None
    ]
    first = f"Free now on one device: {format_compute(free)}." if free else "Nothing is free now."
    queue = f" {waiting} waiting before you." if waiting else ""
    soon = f" A lease ends in {format_duration(min(ends))} at the latest." if ends else ""
    return first + queue + (soon or (" When one is given back is not known." if not free else ""))


def _text(value: Any) -> str:
    """Take a value that anybody sent as text; what is no text or number is no choice."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")[:100]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)[:100]
    return ""
