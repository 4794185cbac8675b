"""What a spawn form offers, and what may be chosen of it.

Rules of this module: it asks nobody; a choice is taken only when it is, letter for letter, one that is
offered; a refusal says what is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_gpupool.core.devices import DeviceKind
from jupyter_gpupool.core.errors import GPUPoolError
from jupyter_gpupool.core.shares import (
    WHOLE_MILLI,
    format_compute,
    format_duration,
    format_memory,
    parse_memory,
    parse_shares,
)
from jupyter_gpupool.protocol.documents import DeviceDoc, LeaseDoc, QueueEntryDoc, QuotaDoc

#: Key of a user's choice among the options of a server.
KEY = "gpupool"
#: Names of the fields in the form.
SHARE_FIELD, WAIT_FIELD = "gpupool_share", "gpupool_wait_minutes"
#: What stands for a server without a share.
NONE = "none"
#: How long a server waits for its share where nobody says, minutes.
WAIT_MINUTES = 10


class BadOffer(GPUPoolError):
    """Raised when an offer cannot be read. The message names it."""

    code = "bad_offer"


class BadChoice(GPUPoolError):
    """Raised when something is chosen that is not offered. The message lists what is."""

    code = "bad_choice"


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One share that a server can be started with.

    Attributes
    ----------
    name : str
        How it is chosen.
    title : str
        What people read.
    compute_milli, count : int
        The share, and of how many devices.
    memory_bytes : int or None
        Memory of each; None for the same fraction as of compute.
    kind : DeviceKind
        Of which kind of device.
    """

    name: str
    title: str
    compute_milli: int
    count: int = 1
    memory_bytes: int | None = None
    kind: DeviceKind = DeviceKind.CUDA


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What a user has chosen: an offer, or None for no share; and how long to wait for it."""

    offer: Offer | None
    wait_minutes: int


def read_offers(offers: Sequence[str | Mapping[str, Any]]) -> tuple[Offer, ...]:
    """Read offers as an administrator writes them: ``"0.25"``, or a mapping with share, memory, kind, title.

    Raises
    ------
    BadOffer
        If one cannot be read, or two have the same name.
    """
    found: dict[str, Offer] = {}
    for told in offers:
        given = {"share": told} if isinstance(told, str) else dict(told)
        unknown = given.keys() - {"name", "share", "memory", "kind", "title"}
        if unknown or "share" not in given:
            raise BadOffer(
                f"The offer {told!r} cannot be read.",
                hint="Give “0.25”, or a mapping with share and, if needed, name, memory, kind, title.",
            )
        offer = _read(told, given)
        if offer.name in found or offer.name == NONE:
            raise BadOffer(f"Two offers are called “{offer.name}”.", hint="Give one of them another name.")
        found[offer.name] = offer
    return tuple(found.values())


def _read(told: Any, given: Mapping[str, Any]) -> Offer:
    try:
        shares = parse_shares(given["share"], None)
        size = None if given.get("memory") is None else parse_memory(given["memory"])
        kind = DeviceKind(given.get("kind", DeviceKind.CUDA.value))
    except (GPUPoolError, ValueError) as error:
        raise BadOffer(f"The offer {told!r} cannot be read: {error}") from error
    what = f"{format_compute(shares.compute_milli)} of a {_KINDS[kind]}"
    if shares.devices > 1:
        what = f"{shares.devices} {_KINDS[kind]}s"
    memory = "" if size is None else f", {format_memory(size)}"
    return Offer(
        name=str(given.get("name") or given["share"]),
        title=str(given.get("title") or f"{what}{memory}"),
        compute_milli=shares.compute_milli,
        count=shares.devices,
        memory_bytes=size,
        kind=kind,
    )


_KINDS = {DeviceKind.CUDA: "GPU", DeviceKind.CPU: "CPU"}


def choose(options: Mapping[str, Any], offers: Sequence[Offer], most_minutes: int) -> Choice:
    """Read what was chosen, however it came: by the form, by the API, or from the last time.

    Raises
    ------
    BadChoice
        If that is not on offer.
    """
    told = options.get(KEY)
    if told is None:
        return Choice(offer=None, wait_minutes=0)
    named = {offer.name: offer for offer in offers}
    allowed = f"Allowed: share: {', '.join([NONE, *named])}; wait_minutes: 0 to {most_minutes}."
    if not isinstance(told, Mapping) or told.keys() - {"share", "wait_minutes"}:
        raise BadChoice(f"The options of “{KEY}” are share and wait_minutes.", hint=allowed)
    share = told.get("share", NONE)
    if not isinstance(share, str) or share not in (NONE, *named):
        raise BadChoice("That share of a device is not offered.", hint=allowed)
    wait = told.get("wait_minutes", min(WAIT_MINUTES, most_minutes))
    if isinstance(wait, bool) or not isinstance(wait, int) or not 0 <= wait <= most_minutes:
        raise BadChoice("That is not how long a server can wait for its share.", hint=allowed)
    return Choice(offer=named.get(share), wait_minutes=wait)


def from_form(data: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Read our fields of a form; what cannot be read stays as it is, to be refused with the rest."""
    found: dict[str, Any] = {}
    for field, key in ((SHARE_FIELD, "share"), (WAIT_FIELD, "wait_minutes")):
        if field in data:
            values = list(data[field])
            found[key] = values[0] if len(values) == 1 else values
    wait = found.get("wait_minutes")
    if isinstance(wait, str) and wait.isascii() and wait.isdigit() and len(wait) < 6:
        found["wait_minutes"] = int(wait)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What the pool says when the form is shown: one's own quotas, and what is free."""

    quotas: Sequence[QuotaDoc] = ()
    devices: Sequence[DeviceDoc] = ()
    queue: Sequence[QueueEntryDoc] = ()
    leases: Sequence[LeaseDoc] = ()


def form(offers: Sequence[Offer], most_minutes: int, standing: Standing | None) -> str:
    """Write the form: one choice, and how long to wait for it."""
    lines = [f'<option value="{NONE}">No share: kernels ask for one by themselves</option>']
    for offer in offers:
        barred = "" if standing is None else _barred(offer, standing)
        when = "" if standing is None else barred or _when(offer, standing)
        text = f"{offer.title} — {when}" if when else offer.title
        off = " disabled" if barred else ""
        lines.append(f'<option value="{escape(offer.name, quote=True)}"{off}>{escape(text)}</option>')
    away = "" if standing is not None else "<p>The pool does not answer now.</p>"
    wait = min(WAIT_MINUTES, most_minutes)
    return (
        '<div class="form-group mb-3">'
        f'<label for="{SHARE_FIELD}">Share of a device for this server and its kernels</label>'
        f'<select class="form-control form-select" id="{SHARE_FIELD}" name="{SHARE_FIELD}">'
        f"{''.join(lines)}</select></div>"
        '<div class="form-group mb-3">'
        f'<label for="{WAIT_FIELD}">Wait for it at most (minutes)</label>'
        f'<input class="form-control" type="number" id="{WAIT_FIELD}" name="{WAIT_FIELD}" '
        f'min="0" max="{most_minutes}" step="1" value="{wait}"></div>{away}'
    )


def _barred(offer: Offer, standing: Standing) -> str:
    """Say which of the user's own quotas an offer would exceed; empty when none."""
    wanted = {"compute": offer.compute_milli * offer.count / WHOLE_MILLI, "leases": 1.0}
    if offer.memory_bytes is not None:
        wanted["memory"] = float(offer.memory_bytes * offer.count)
    for quota in standing.quotas:
        if quota.kind not in (None, offer.kind) or quota.what not in wanted:
            continue
        if wanted[quota.what] > quota.left + 1e-9:
            return "more than your quota leaves you now"
    return ""


def _when(offer: Offer, standing: Standing) -> str:
    """Say whether there is room now, and if not, what is known of when there will be."""
    meant = [it for it in standing.devices if it.kind is offer.kind]
    rooms = [it for it in meant if it.offered and _fits(offer, it)]
    ahead = sum(1 for it in standing.queue if it.kind in (None, offer.kind))
    if len(rooms) >= offer.count and not ahead:
        return "free now"
    if not any(_is_large_enough(offer, it) for it in meant):
        return "no such device is in the pool now"
    ids = {it.id for it in meant}
    ends = [
        it.expires_seconds
        for it in standing.leases
        if it.expires_seconds is not None and any(share.device_id in ids for share in it.shares)
    ]
    line = f"{ahead} ahead of you" if ahead else "waits for room"
    return f"{line}; the next known end is in {format_duration(min(ends))}" if ends else line


def _fits(offer: Offer, device: DeviceDoc) -> bool:
    needed = offer.memory_bytes
    if needed is None:
        needed = device.memory_bytes * offer.compute_milli // WHOLE_MILLI
    return device.free_compute_milli >= offer.compute_milli and device.free_memory_bytes >= needed


def _is_large_enough(offer: Offer, device: DeviceDoc) -> bool:
    return offer.memory_bytes is None or offer.memory_bytes <= device.memory_bytes
