"""Plots as inline SVG: no library, no outside request, readable when zoomed. Each has a title, axes and units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 34, 46
INK, GRID = "#33383f", "#dfe3e8"
COLOURS = ("#2f6db3", "#c8642b", "#3f8f5b", "#8a5aa8", "#9a8423", "#b3475f", "#4f8f9c")


@dataclass(frozen=True)
class Axis:
    """A scale from values to pixels, with ticks at round numbers."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, here = (
            (math.log10(x) for x in (self.low, self.high, value))
            if self.log
            else (
                self.low,
                self.high,
                value,
            )
        )
        span = high - low or 1.0
        return self.start + (here - low) / span * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            steps = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [m * 10.0**p for p in steps for m in (1, 2, 5)]
        else:
            step = nice_step((self.high - self.low) / 5)
            first = math.ceil(self.low / step)
            found = [step * (first + i) for i in range(int((self.high - self.low) / step) + 2)]
        return [tick for tick in found if self.low - 1e-12 <= tick <= self.high * (1 + 1e-9)]


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten.

    >>> nice_step(0.13), nice_step(3)
    (0.2, 5.0)
    """
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(round(m * power, 12) for m in (1, 2, 5, 10) if m * power >= rough - 1e-12))


def shown(value: float) -> str:
    """A tick's label.

    >>> shown(0.25), shown(1500), shown(2_500_000)
    ('0.25', '1.5k', '2.5M')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e3:
        return f"{value / 1e3:g}k"
    return f"{value:.4g}"


def bars(values: Sequence[float], labels: Sequence[str], title: str, x: str, y: str, line: float | None = None) -> str:
    """One bar a label; `line` marks what an even share would be."""
    high = max([*values, line or 0.0, 1e-9]) * 1.1
    axis = Axis(0.0, high, HEIGHT - BOTTOM, TOP)
    slot = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    parts = [_rows(axis)]
    for i, (value, label) in enumerate(zip(values, labels, strict=True)):
        left, top = LEFT + slot * (i + 0.18), axis.at(value)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{slot * 0.64:.1f}" height="{axis.start - top:.1f}" '
            f'fill="{COLOURS[0]}"><title>{escape(label)}: {value:.4g}</title></rect>'
            + _text(left + slot * 0.32, top - 4, f"{value:.3g}", "middle")
            + _text(left + slot * 0.32, HEIGHT - BOTTOM + 15, label, "middle")
        )
    if line is not None:
        parts.append(_line(LEFT, axis.at(line), WIDTH - RIGHT, axis.at(line), INK, "4 3"))
    return _frame(title, x, y, parts)


def histogram(edges: Sequence[float], counts: Sequence[float], title: str, x: str, y: str, mark: float | None) -> str:
    """Counts over equal bins; `mark` is a threshold that matters."""
    across = Axis(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    up = Axis(0.0, max([*counts, 1]) * 1.08, HEIGHT - BOTTOM, TOP)
    parts = [_rows(up), _columns(across)]
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        a, b, top = across.at(left), across.at(right), up.at(count)
        parts.append(
            f'<rect x="{a:.1f}" y="{top:.1f}" width="{max(b - a - 0.6, 0.4):.1f}" height="{up.start - top:.1f}" '
            f'fill="{COLOURS[0]}"><title>{left:.3g} to {right:.3g}: {count:g}</title></rect>'
        )
    if mark is not None and edges[0] <= mark <= edges[-1]:
        parts.append(_line(across.at(mark), TOP, across.at(mark), HEIGHT - BOTTOM, COLOURS[1], "4 3"))
    return _frame(title, x, y, parts)


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    series: str
    label: str
    low: float | None = None
    high: float | None = None


def scatter(points: Sequence[Point], title: str, x: str, y: str) -> str:
    """Points by series over a logarithmic x, with intervals where they are known."""
    xs = [p.x for p in points if p.x > 0]
    tops = [p.high if p.high is not None else p.y for p in points]
    lows = [p.low if p.low is not None else p.y for p in points]
    across = Axis(min(xs) / 1.4, max(xs) * 1.4, LEFT, WIDTH - RIGHT, log=True)
    margin = (max(tops) - min(lows)) * 0.08 or 0.02
    up = Axis(max(0.0, min(lows) - margin), max(tops) + margin, HEIGHT - BOTTOM, TOP)
    names = list(dict.fromkeys(p.series for p in points))
    parts = [_rows(up), _columns(across)]
    for p in points:
        colour, cx, cy = COLOURS[names.index(p.series) % len(COLOURS)], across.at(p.x), up.at(p.y)
        if p.low is not None and p.high is not None:
            parts.append(_line(cx, up.at(p.low), cx, up.at(p.high), colour, None))
        parts.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4" fill="{colour}">'
            f"<title>{escape(p.label)}: {p.y:.4f} at {p.x:,.0f}</title></circle>" + _text(cx + 6, cy - 5, p.label)
        )
    for i, name in enumerate(names):
        left = LEFT + 6 + 92 * i
        parts.append(f'<circle cx="{left}" cy="{TOP - 8}" r="4" fill="{COLOURS[i % len(COLOURS)]}"/>')
        parts.append(_text(left + 8, TOP - 4, name))
    return _frame(title, x, y, parts)


def differences(values: Sequence[float], title: str, x: str, y: str) -> str:
    """Per-query differences, sorted: above the line are wins, below are losses."""
    ordered = sorted(values, reverse=True)
    most = max(max((abs(v) for v in ordered), default=0.0), 1e-3)
    up = Axis(-most, most, HEIGHT - BOTTOM, TOP)
    across = Axis(0, max(len(ordered), 1), LEFT, WIDTH - RIGHT)
    zero = up.at(0.0)
    parts = [_rows(up), _columns(across)]
    for i, value in enumerate(ordered):
        if value:
            top, low = sorted((up.at(value), zero))
            colour = COLOURS[2] if value > 0 else COLOURS[1]
            width = max(across.at(1) - across.at(0), 0.5)
            parts.append(
                f'<rect x="{across.at(i):.2f}" y="{top:.1f}" width="{width:.2f}" height="{low - top:.1f}" '
                f'fill="{colour}"/>'
            )
    parts.append(_line(LEFT, zero, WIDTH - RIGHT, zero, INK, None))
    return _frame(title, x, y, parts)


def _frame(title: str, x: str, y: str, parts: Sequence[str]) -> str:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        + _text(LEFT, 14, title, weight="600", size=12)
        + "".join(parts)
        + _line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, INK, None)
        + _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x, "middle")
        + f'<g transform="rotate(-90 13 {middle:.0f})">{_text(13, middle, y, "middle")}</g></svg>'
    )


def _rows(axis: Axis) -> str:
    return "".join(
        _line(LEFT, axis.at(t), WIDTH - RIGHT, axis.at(t), GRID, None)
        + _text(LEFT - 6, axis.at(t) + 3.5, shown(t), "end")
        for t in axis.ticks()
    )


def _columns(axis: Axis) -> str:
    return "".join(_text(axis.at(t), HEIGHT - BOTTOM + 15, shown(t), "middle") for t in axis.ticks())


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str | None) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "400", size: int = 10) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{INK}">{escape(text)}</text>'
    )
