"""The frame of a chart: where the plot lies, how values map to pixels, axes and grid, and how a house draws them."""

from __future__ import annotations

from dataclasses import dataclass

from ..canvas import Colour
from ..page import Box
from .chart_data import Plan
from .chart_marks import Marks, nice_step

GRID: Colour = (222, 222, 222)
TEXT: Colour = (70, 70, 70)


@dataclass
class Frame:
    """Where the plot lies and how values map to pixels."""

    box: Box
    top: float
    step: float
    flat: bool  # bars lie: values run along x
    low: float = 0.0

    def at(self, value: float) -> float:
        x0, y0, x1, y1 = self.box
        share = (value - self.low) / (self.top - self.low)
        return x0 + share * (x1 - x0) if self.flat else y1 - share * (y1 - y0)


@dataclass
class Look:
    """How a house draws its charts."""

    grid: str = "solid"  # solid, dashed, none
    values: str = "plain"  # plain, comma, bare; none: no value labels
    legend: str = "bottom"  # bottom, top, right, direct
    axis: bool = True
    bands: bool = False
    inside: bool = False  # values inside the bars
    own: bool = False  # each bar has a colour of its own, and so have its label and its value
    rising: bool = False  # labels below bars rise, whether they must or not


def scale(plan: Plan, zero: bool) -> tuple[float, float, float]:
    """(low, top, step) of the value axis."""
    top = plan.top
    low = min(min(row) for row in plan.values)
    low = 0.0 if zero or low < 0.6 * top else low * 0.96
    step = nice_step(top - low, 5)
    low = int(low / step) * step if low else 0.0
    return low, low + step * (int((top - low) / step) + 1), step


def tick(plan: Plan, value: float, step: float) -> str:
    text = f"{value:,.0f}" if step >= 1 else f"{value:.2f}".rstrip("0").rstrip(".")
    return text + ("%" if plan.unit == "%" else "")


def back(marks: Marks, frame: Frame, look: Look, pitch: float) -> None:
    """Bands and grid lines behind the marks."""
    x0, y0, x1, y1 = frame.box
    if look.bands and not frame.flat:
        x = x0
        while x + pitch <= x1 + 1:
            marks.rect(x, y0, x + pitch, y1, (247, 247, 247))
            x += 2 * pitch
    value = frame.low
    while look.grid != "none" and value <= frame.top + frame.step / 2:
        at = frame.at(value)
        if frame.flat:
            marks.line([(at, y0), (at, y1)], GRID, 0.6)
        elif look.grid == "dashed":
            marks.dashed(x0, at, x1, GRID)
        else:
            marks.line([(x0, at), (x1, at)], GRID, 0.6)
        value += frame.step
