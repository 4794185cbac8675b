"""Draws `LEASE_TRANSITIONS`: the one table, as a picture and as a table for readers."""

from __future__ import annotations

from html import escape

from comments import read_comments, sentence

from jupyter_gpupool.core.leases import LEASE_TRANSITIONS, EndReason, LeaseEvent, LeaseState

#: Centre of each state in the picture; one that is missing here fails the build, so the picture stays true.
_PLACES = {
    LeaseState.QUEUED: (110, 90),
    LeaseState.ATTACHING: (390, 90),
    LeaseState.ACTIVE: (690, 90),
    LeaseState.ENDING: (690, 330),
    LeaseState.ENDED: (110, 330),
}
#: How far along its arrow a label stands, where the middle is taken; from 0 to 1.
_LABEL_AT = {
    (LeaseState.ATTACHING, LeaseState.ENDING): 0.62,
    (LeaseState.ACTIVE, LeaseState.ENDED): 0.47,
}
_BOX = (124, 44)
_LINE_HEIGHT = 15


def _words(event: LeaseEvent) -> str:
    return event.value.replace("_", " ")


def _arrows() -> dict[tuple[LeaseState, LeaseState], list[str]]:
    """Group the events that lead from one state to another."""
    arrows: dict[tuple[LeaseState, LeaseState], list[str]] = {}
    for state, row in LEASE_TRANSITIONS.items():
        for event, after in row.items():
            arrows.setdefault((state, after), []).append(_words(event))
    return arrows


def _border(place: tuple[int, int], toward: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a box's centre toward a point leaves the box."""
    dx, dy = toward[0] - place[0], toward[1] - place[1]
    scale = min(_BOX[0] / 2 / abs(dx) if dx else 1e9, _BOX[1] / 2 / abs(dy) if dy else 1e9)
    return place[0] + dx * scale, place[1] + dy * scale


def _label(x: float, y: float, words: list[str]) -> str:
    top = y - _LINE_HEIGHT * (len(words) - 1) / 2
    spans = "".join(
        f'<tspan x="{x:.0f}" y="{top + _LINE_HEIGHT * row:.0f}">{escape(word)}</tspan>'
        for row, word in enumerate(words)
    )
    return f'<text class="event">{spans}</text>'


def _loop(place: tuple[int, int], words: list[str]) -> str:
    """Draw an arrow from a state to itself, at its outer side."""
    x, y = place
    side = 1 if x > 300 else -1
    edge = x + side * _BOX[0] / 2
    path = f"M{edge:.0f},{y - 10} c{side * 46},-22 {side * 46},42 0,20"
    return f'<path d="{path}" class="arrow"/>' + _label(edge + side * 84, y, words)


def _arrow(before: LeaseState, after: LeaseState, words: list[str]) -> str:
    """Draw one arrow, bent to its left so that there and back do not lie on each other."""
    start, end = _PLACES[before], _PLACES[after]
    if before is after:
        return _loop(start, words)
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    bend = 46 if (after, before) in _arrows() else 18
    turn = (
        middle[0] + (end[1] - start[1]) / length * bend,
        middle[1] - (end[0] - start[0]) / length * bend,
    )
    (x1, y1), (x2, y2) = _border(start, turn), _border(end, turn)
    at = _LABEL_AT.get((before, after), 0.5)
    near, bent, far = (1 - at) ** 2, 2 * at * (1 - at), at**2
    label = (near * x1 + bent * turn[0] + far * x2, near * y1 + bent * turn[1] + far * y2)
    return (
        f'<path d="M{x1:.0f},{y1:.0f} Q{turn[0]:.0f},{turn[1]:.0f} {x2:.0f},{y2:.0f}" class="arrow"/>'
        + _label(*label, words)
    )


def svg() -> str:
    """Return the picture; every arrow of the table is in it."""
    parts = [_arrow(before, after, words) for (before, after), words in _arrows().items()]
    for state in LeaseState:
        x, y = _PLACES[state]
        parts.append(
            f'<rect x="{x - _BOX[0] / 2:.0f}" y="{y - _BOX[1] / 2:.0f}" width="{_BOX[0]}" height="{_BOX[1]}" '
            f'rx="8" class="state"/><text x="{x}" y="{y + 5}" class="name">{state.name}</text>'
        )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 420" role="img" '
        'aria-label="States of a lease and the events between them">\n'
        "<style>.state{fill:#e8f0fe;stroke:#1a56b0;stroke-width:1.5}"
        ".name{font:600 15px sans-serif;text-anchor:middle;fill:#123}"
        ".event{font:12.5px sans-serif;text-anchor:middle;fill:#333;"
        "paint-order:stroke;stroke:#fff;stroke-width:4px}"
        ".arrow{fill:none;stroke:#667;stroke-width:1.3;marker-end:url(#head)}</style>\n"
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0L10,5L0,10z" fill="#667"/></marker></defs>\n'
        '<rect width="920" height="420" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _meanings(kind: type) -> dict[str, str]:
    return {name: sentence(comment) for name, (_, comment) in read_comments(kind).items()}


def table() -> str:
    """Return the table, with what each state and event means."""
    states, events = _meanings(LeaseState), _meanings(LeaseEvent)
    lines = ["| state | what it means |", "| --- | --- |"]
    lines += [f"| `{state.name}` | {states.get(state.name, '')} |" for state in LeaseState]
    lines += ["", "| in state | event | next state | what happened |", "| --- | --- | --- | --- |"]
    for state, row in LEASE_TRANSITIONS.items():
        for event, after in row.items():
            lines.append(
                f"| `{state.name}` | {_words(event)} | `{after.name}` | {events.get(event.name, '')} |"
            )
    reasons = _meanings(EndReason)
    lines += ["", "| why a lease ended | what it means |", "| --- | --- |"]
    lines += [f"| `{reason.value}` | {reasons.get(reason.name, '')} |" for reason in EndReason]
    return "\n".join(lines) + "\n"
