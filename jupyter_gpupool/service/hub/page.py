"""The page of the pool in the Hub: who holds what, who waits, and what administrators can do about it.

Rules of this module: values in, HTML out; everything that came from somebody is escaped; it needs no script,
and follows the browser's theme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from jupyter_gpupool.core.leases import LeaseState
from jupyter_gpupool.core.shares import format_compute, format_duration, format_memory
from jupyter_gpupool.protocol.administration import AuditDoc
from jupyter_gpupool.protocol.documents import DeviceDoc, LeaseDoc, NodeDoc, NodeState, PoolDoc
from jupyter_gpupool.service.rule_files import RuleKind

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1.5rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid GrayText; vertical-align: top; }
td form { display: flex; gap: .4rem; }
textarea { display: block; width: 100%; font-family: ui-monospace, monospace; margin-bottom: .5rem; }
.note { border-left: .25rem solid GrayText; padding-left: .6rem; }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleShown:
    """One file of rules as it is shown.

    Attributes
    ----------
    kind : RuleKind
        Which.
    path : Path
        Where it is.
    text : str
        What is in it, or what was refused.
    seen : str
        Tells whether the file is still the same.
    refused : str
        Why it was refused; empty when it was not.
    """

    kind: RuleKind
    path: Path
    text: str
    seen: str
    refused: str = ""


def overview(pool: PoolDoc, audit: Sequence[AuditDoc] | None, *, proof: str, prefix: str) -> str:
    """Write the page for one person.

    Parameters
    ----------
    pool : PoolDoc
        The pool as they may see it.
    audit : sequence of AuditDoc or None
        What administrators did; None for who is none.
    proof : str
        What the forms carry back.
    prefix : str
        Where they are sent.
    """
    nodes = {node.id: node.hostname for node in pool.nodes}
    held = [it for it in pool.leases if it.state not in (LeaseState.QUEUED, LeaseState.ENDED)]
    waiting = [it for it in pool.leases if it.state is LeaseState.QUEUED]
    form = _Form(proof, prefix) if audit is not None else None
    return _document(
        f"<p>You are {escape(pool.me)}.</p>"
        + "".join(f'<p class="note">{escape(text)}</p>' for text in pool.warnings)
        + _table(
            "Nodes",
            ("Node", "State", "Leases end in", "Why", ""),
            (_node(it, form) for it in pool.nodes),
        )
        + _table(
            "Devices",
            ("Device", "Node", "Model", "Free", "State"),
            (_device(it, nodes) for it in pool.devices),
        )
        + _table(
            "Held",
            ("Owner", "Share", "Memory", "Device", "For", ""),
            (_held(it, form) for it in held),
        )
        + _table("Waiting", ("Owner", "Share", "Place", "For", ""), (_waiting(it, form) for it in waiting))
        + (
            f'<p><a href="{escape(prefix)}rules">Quotas and reservations</a></p>'
            + _table("Audit log", ("When", "Who", "What", "Whose", "Message"), map(_deed, audit))
            if audit is not None
            else ""
        )
    )


def rules(texts: Iterable[RuleShown], *, proof: str, prefix: str) -> str:
    """Write the page on which administrators change quotas and reservations.

    Parameters
    ----------
    texts : iterable of RuleShown
        What is in the files, or was just refused.
    proof, prefix : str
        As for `overview`.
    """
    back = f'<p><a href="{escape(prefix)}">Back to the pool</a></p>'
    return _document(back + "".join(_rule_form(it, _Form(proof, prefix)) for it in texts))


def _rule_form(shown: RuleShown, form: _Form) -> str:
    name = shown.kind.value
    note = f'<p class="note" role="alert">{escape(shown.refused)}</p>' if shown.refused else ""
    hidden = {"kind": name, "seen": shown.seen}
    area = (
        f'<textarea name="text" rows="16" spellcheck="false" aria-label="{name.capitalize()}">\n'
        f"{escape(shown.text)}</textarea>"
    )
    where = f"<p>In {escape(str(shown.path))}; what is held stays held.</p>"
    return f"<h2>{name.capitalize()}</h2>{note}{where}{form('rules', 'Save', hidden, inner=area)}"


def failure(message: str, hint: str) -> str:
    """Write a page that says what went wrong."""
    return _document(f'<p class="note" role="alert">{escape(message)} {escape(hint)}</p>')


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>GPU pool</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>GPU pool</h1>{body}</main></body></html>"
    )


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write one table; the cells of its rows are HTML already."""
    written = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    if not written:
        return f"<h2>{title}</h2><p>None.</p>"
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    return f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(written)}</tbody></table>"


def _device(device: DeviceDoc, nodes: dict[str, str]) -> Sequence[str]:
    free = f"{format_compute(device.free_compute_milli)}, {format_memory(device.free_memory_bytes)}"
    state = "offered" if device.offered else device.withheld or "not offered"
    node = nodes.get(device.node_id, "")
    return [escape(text) for text in (device.name, node, device.model, free, state)]


class _Form:
    """Writes forms of one page: with its proof, so that no other page can send them."""

    def __init__(self, proof: str, prefix: str) -> None:
        self._proof = proof
        self._prefix = prefix

    def __call__(
        self, action: str, button: str, hidden: dict[str, str], *fields: tuple[str, str], inner: str = ""
    ) -> str:
        """Write one: hidden values, fields for the keyboard by name and label, and what is HTML already."""
        kept = {"proof": self._proof, **hidden}
        return (
            f'<form method="post" action="{escape(self._prefix + action)}">'
            + "".join(
                f'<input type="hidden" name="{name}" value="{escape(value)}">' for name, value in kept.items()
            )
            + "".join(
                f'<input name="{name}" maxlength="200" aria-label="{escape(label)}" '
                f'placeholder="{escape(label)}">'
                for name, label in fields
            )
            + f"{inner}<button>{button}</button></form>"
        )


def _node(node: NodeDoc, form: _Form | None) -> Sequence[str]:
    drained = node.state in (NodeState.DRAINING, NodeState.DRAINED)
    left = format_duration(node.drain_seconds) if node.drain_seconds is not None else ""
    shown = [escape(text) for text in (node.hostname, node.state.value, left, node.drain_message)]
    if form is None:
        return [*shown, ""]
    hidden = {"node": node.id}
    drain = form(
        "drain",
        "Drain",
        hidden,
        ("message", f"Why {node.hostname} is drained"),
        ("grace", "End leases after (30m); empty: never"),
    )
    return [*shown, form("undrain", "Undrain", hidden) if drained else drain]


def _held(lease: LeaseDoc, form: _Form | None) -> Sequence[str]:
    memory = format_memory(lease.memory_bytes) if lease.memory_bytes else ""
    shown = (
        *(_owner(lease), format_compute(lease.compute_milli), memory, lease.device),
        format_duration(lease.held_seconds),
    )
    return [*(escape(text) for text in shown), _end(lease, form)]


def _waiting(lease: LeaseDoc, form: _Form | None) -> Sequence[str]:
    place = str(lease.position or "")
    waited = format_duration(lease.waited_seconds)
    shown = (_owner(lease), format_compute(lease.compute_milli), place, waited)
    return [*(escape(text) for text in shown), _end(lease, form)]


def _owner(lease: LeaseDoc) -> str:
    label = f" ({lease.holder.label})" if lease.holder.label else ""
    return f"{lease.owner or 'somebody'}{label}"


def _end(lease: LeaseDoc, form: _Form | None) -> str:
    """Write the form by which an administrator ends somebody else's lease."""
    if lease.mine or form is None:
        return ""
    return form("end", "End", {"lease": lease.id}, ("message", f"Message to {lease.owner}"))


def _deed(doc: AuditDoc) -> Sequence[str]:
    when = datetime.fromtimestamp(doc.wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    what = f"{doc.action} {doc.subject}"
    return [escape(text) for text in (when, doc.who, what, doc.owner, doc.detail)]
