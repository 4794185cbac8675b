"""What the shape of a message does not say: ranges and lengths.

Rule of this module: what the pool itself refuses is not repeated here, except where a value could not even be
written down.
"""

from __future__ import annotations

import math

from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.leases import EndReason
from jupyter_gpupool.core.shares import MOST_DEVICES
from jupyter_gpupool.protocol.administration import DrainRequest
from jupyter_gpupool.protocol.documents import (
    ActivityRequest,
    JoinRequest,
    LeaseRequest,
    MoveRequest,
    ResizeRequest,
    SnapshotsReport,
)
from jupyter_gpupool.protocol.limits import ADDRESS, SNAPSHOTS, TEXT, printable

#: Largest memory size that can be written, bytes.
MEMORY_BYTES = 2**60
#: Longest long poll, seconds.
POLL_SECONDS = 60.0
#: Longest wait or hold, seconds (a hundred years).
SECONDS = 100 * 366 * 86400.0

#: Reasons that a client may give for an end.
REASONS = {
    reason.value: reason
    for reason in (
        EndReason.RELEASED,
        EndReason.CANCELLED,
        EndReason.KERNEL_SHUTDOWN,
        EndReason.KERNEL_DEAD,
    )
}


def lease_request(wanted: LeaseRequest) -> LeaseRequest:
    """Check the body of a request for a lease."""
    _size(wanted.compute_milli, wanted.memory_bytes)
    if not 1 <= wanted.count <= MOST_DEVICES:
        raise InvalidValue(
            f"count is {str(wanted.count)[:TEXT]}, which is out of range.",
            hint=f"Give 1 to {MOST_DEVICES} devices.",
        )
    _place(wanted)
    _text("holder.key", wanted.holder.key)
    _text("holder.hostname", wanted.holder.hostname)
    _text("holder.worker", wanted.holder.worker)
    _duration("wait_seconds", wanted.wait_seconds, least=0.0)
    _duration("hold_seconds", wanted.hold_seconds, least=0.001)
    return wanted


def move_request(wanted: MoveRequest) -> MoveRequest:
    """Check the body of a move."""
    _size(wanted.compute_milli, wanted.memory_bytes)
    _place(wanted)
    return wanted


def _place(wanted: LeaseRequest | MoveRequest) -> None:
    """Check which devices are meant, and what is asked for beside them."""
    for name, amount in (
        ("host_cpu_milli", wanted.host_cpu_milli),
        ("host_memory_bytes", wanted.host_memory_bytes),
    ):
        if not 0 <= amount < MEMORY_BYTES:
            raise InvalidValue(
                f"{name} is {str(amount)[:TEXT]}, which is out of range.", hint="Give at least 0."
            )
    _text("device", wanted.device)
    _text("model", wanted.model)


def label(text: str) -> str:
    """Make a label that can be shown anywhere: it is for display, so nothing is refused for it."""
    return printable(text).strip()


def message(text: str) -> str:
    """Make what an administrator says showable in one line; a long one is refused, as half of it is none."""
    if len(text) > TEXT:
        raise InvalidValue("message is too long.", hint=f"Give at most {TEXT} characters.")
    return printable(text).strip()


def snapshots_report(report: SnapshotsReport) -> SnapshotsReport:
    """Check what a holder says of a store."""
    _text("store", report.store, ADDRESS)
    if len(report.snapshots) > SNAPSHOTS:
        raise InvalidValue(
            f"This report is of {len(report.snapshots)} snapshots, which is out of range.",
            hint=f"Report the newest {SNAPSHOTS}.",
        )
    for doc in report.snapshots:
        for name in ("id", "name", "note", "kernel_id", "hostname"):
            _text(name, getattr(doc, name))
        _text("notebook", doc.notebook, ADDRESS)
        for number in (doc.created_ms, doc.total_bytes, doc.new_bytes, doc.count):
            if not 0 <= number <= MEMORY_BYTES:
                raise InvalidValue(f"{str(number)[:TEXT]} is out of range.", hint="Give a count.")
        _duration("restore_seconds", doc.restore_seconds, least=0.0)
    return report


def resize_request(wanted: ResizeRequest) -> ResizeRequest:
    """Check the body of a resize."""
    _size(wanted.compute_milli, wanted.memory_bytes)
    return wanted


def join_request(wanted: JoinRequest) -> JoinRequest:
    """Check the body of a join."""
    _text("node_id", wanted.node_id)
    return wanted


def activity_request(told: ActivityRequest) -> ActivityRequest:
    """Check what a holder says that it does."""
    _duration("idle_seconds", told.idle_seconds, least=0.0)
    return told


def drain_request(wanted: DrainRequest) -> DrainRequest:
    """Check the body of a drain."""
    wanted.message = message(wanted.message)
    _duration("grace_seconds", wanted.grace_seconds, least=0.0)
    return wanted


def idempotency_key(key: str | None) -> None:
    """Check the header ``Idempotency-Key``; None when there is none."""
    if key is not None and not (1 <= len(key) <= TEXT and all("!" <= char <= "~" for char in key)):
        raise InvalidValue(
            "This Idempotency-Key cannot be used.",
            hint=f"Send 1 to {TEXT} visible ASCII characters, such as a UUID.",
        )


def end_reason(text: str | None) -> EndReason:
    """Read the query ``reason``; without it a lease is released."""
    if text is None:
        return EndReason.RELEASED
    try:
        return REASONS[text]
    except KeyError:
        raise InvalidValue(
            f"“{text[:TEXT]}” is not a reason to end a lease.", hint=f"Give one of {', '.join(REASONS)}."
        ) from None


def kernel_id(text: str) -> str:
    """Read the query ``kernel_id``."""
    if not text:
        raise InvalidValue("Which kernel's leases?", hint="Give ?kernel_id=, or name one lease.")
    _text("kernel_id", text)
    return text


def process_id(text: str | None) -> int:
    """Read the query ``pid``; 0 without it."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) > 0):
        raise InvalidValue(f"“{text[:TEXT]}” is not a process.", hint="Give its pid, or leave it out.")
    return int(text)


def wait_seconds(text: str | None) -> float:
    """Read the query ``wait_seconds``; without it nothing is waited for."""
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= POLL_SECONDS:
        raise InvalidValue(
            f"“{text[:TEXT]}” is not a number of seconds.", hint=f"Give 0 to {POLL_SECONDS:g}."
        )
    return seconds


def milliseconds(seconds: float | None) -> int | None:
    """Turn a checked duration into whole milliseconds, rounded up."""
    return None if seconds is None else math.ceil(seconds * 1000)


def _size(compute_milli: int, memory_bytes: int | None) -> None:
    if not 1 <= compute_milli <= 1000:
        raise InvalidValue(
            f"compute_milli is {str(compute_milli)[:TEXT]}, which is out of range.",
            hint="Give 1 to 1000 thousandths of a device.",
        )
    if memory_bytes is not None and not 1 <= memory_bytes < MEMORY_BYTES:
        raise InvalidValue(
            f"memory_bytes is {str(memory_bytes)[:TEXT]}, which is out of range.",
            hint="Give a number of bytes, at least 1.",
        )


def _text(name: str, value: str, most: int = TEXT) -> None:
    if len(value) > most or any(char < " " or char == "\x7f" for char in value):
        raise InvalidValue(
            f"{name} cannot be used.", hint=f"Give at most {most} characters, no control ones."
        )


def _duration(name: str, value: float | None, *, least: float) -> None:
    if value is not None and not least <= value <= SECONDS:
        raise InvalidValue(f"{name} is {value:g}, which is out of range.", hint="Give a number of seconds.")
