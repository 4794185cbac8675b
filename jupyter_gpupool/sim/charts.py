"""Line charts as SVG, by hand: what a report needs, and nothing else.

Rules of this module: text in, text out; colours are CSS classes, so that the page decides light or dark, and
what a colour says a dash says too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: Size of a chart and of its margins, user units.
WIDTH, HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 40

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a chart.

    Attributes
    ----------
    name : str
        For the legend.
    points : sequence of (float, float)
        From left to right.
    look : str
        CSS class: ``a`` or ``b``, ``limit`` for what cannot be exceeded.
    filled : bool
        Whether the area below is filled.
    """

    name: str
    points: Points
    look: str
    filled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Lines over a common axis.

    Attributes
    ----------
    title, across, up : str
        What it is about, and what the axes say, with units.
    lines : sequence of Line
        The lines.
    top : float or None
        Where the upper end of the vertical axis is; None for a round number above all lines.
    logarithmic : bool
        Whether the horizontal axis is one of durations in seconds, by their logarithm.
    percent : bool
        Whether the vertical axis is in percent.
    """

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    top: float | None = None
    logarithmic: bool = False
    percent: bool = False

    def svg(self) -> str:
        """Draw it."""
        points = [point for line in self.lines for point in line.points] or [(0.0, 0.0)]
        low, high = min(x for x, _ in points), max(x for x, _ in points)
        left = max(low, 0.1) if self.logarithmic else 0.0
        scale = _Scale(
            left=left,
            right=max(high, left * 10 if self.logarithmic else 1e-9),
            top=self.top or _round_up(max(y for _, y in points)),
            logarithmic=self.logarithmic,
        )
        body = [*_grid(scale, self.percent)]
        body += [drawn for line in self.lines for drawn in _drawn(scale, line)]
        middle = (_TOP + HEIGHT - _BOTTOM) / 2
        body.append(
            f'<text class="axis" x="{(_LEFT + WIDTH) / 2:g}" y="{HEIGHT - 4}">{escape(self.across)}</text>'
        )
        body.append(
            f'<text class="axis" transform="rotate(-90 12 {middle:g})" x="12" y="{middle:g}">'
            f"{escape(self.up)}</text>"
        )
        label = escape(f"{self.title}: {', '.join(line.name for line in self.lines)}")
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg>'

    def figure(self) -> str:
        """Return it with its title and legend, as HTML."""
        legend = "".join(
            '<li><svg viewBox="0 0 26 8" aria-hidden="true">'
            f'<path class="line {line.look}" d="M0 4H26"/></svg>{escape(line.name)}</li>'
            for line in self.lines
        )
        return (
            f"<figure><figcaption>{escape(self.title)}</figcaption><ul class='legend'>{legend}</ul>"
            f"{self.svg()}</figure>"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    """Where a point of a chart lies on the page."""

    left: float
    right: float
    top: float
    logarithmic: bool

    def x(self, value: float) -> float:
        if self.logarithmic:
            low, high = math.log(self.left), math.log(self.right)
            part = (math.log(max(value, self.left)) - low) / (high - low)
        else:
            part = (value - self.left) / (self.right - self.left)
        return _LEFT + part * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        part = min(1.0, value / self.top)
        return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _grid(scale: _Scale, percent: bool) -> list[str]:
    found = []
    for at in range(5):
        value = scale.top * at / 4
        y = scale.y(value)
        label = f"{100 * value:g} %" if percent else f"{value:g}"
        found.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        found.append(f'<text class="tick up" x="{_LEFT - 6}" y="{y + 4:.1f}">{label}</text>')
    for value, label in _ticks(scale):
        x = scale.x(value)
        found.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        found.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 15}">{label}</text>')
    return found


#: Durations that a logarithmic axis names, seconds.
_DURATIONS = (
    *((0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h")),
    *((6 * 3600, "6 h"), (86_400, "1 d"), (4 * 86_400, "4 d"), (30 * 86_400, "30 d"), (365 * 86_400, "1 y")),
)


def _ticks(scale: _Scale) -> list[tuple[float, str]]:
    if scale.logarithmic:
        return [(it, name) for it, name in _DURATIONS if scale.left <= it <= scale.right]
    step = _round_up((scale.right - scale.left) / 8)
    if scale.right > 24:
        step = 24 * max(1, math.ceil(scale.right / 24 / 10))  # whole days
    count = int((scale.right - scale.left) / step + 1e-9)
    return [(scale.left + at * step, f"{scale.left + at * step:g}") for at in range(count + 1)]


def _round_up(value: float) -> float:
    """Return 1, 2, 4 or 8 times a power of ten that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{it * power:.6g}") for it in (1, 2, 4, 8, 10) if it * power >= value * (1 - 1e-9))


def _drawn(scale: _Scale, line: Line) -> list[str]:
    if not line.points:
        return []
    # whoever has waited for so long has waited no longer: a distribution goes on to the right
    end = f"H{scale.x(scale.right):.1f}" if scale.logarithmic else ""
    path = "L".join(f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in line.points)
    found = [f'<path class="line {line.look}" d="M{path}{end}"/>']
    if line.filled:
        base = scale.y(0)
        first, last = scale.x(line.points[0][0]), scale.x(line.points[-1][0])
        found.insert(
            0, f'<path class="area {line.look}" d="M{first:.1f} {base:.1f}L{path}L{last:.1f} {base:.1f}Z"/>'
        )
    return found
