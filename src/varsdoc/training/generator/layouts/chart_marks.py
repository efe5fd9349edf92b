"""Smooth marks: bars, lines and slices drawn at twice the size and reduced, because Pillow's own have steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from ..canvas import Canvas, Colour
from ..page import Box

SCALE = 2


class Marks:
    """A layer over a box of the canvas, in canvas coordinates; `done` puts it down. Print text after that."""

    def __init__(self, canvas: Canvas, box: Box) -> None:
        self.canvas = canvas
        self.x, self.y = int(box[0]), int(box[1])
        self.width, self.height = max(1, int(box[2]) - self.x), max(1, int(box[3]) - self.y)
        under = canvas.image.crop((self.x, self.y, self.x + self.width, self.y + self.height))
        self.layer = under.resize((self.width * SCALE, self.height * SCALE), Image.Resampling.NEAREST)
        self.draw = ImageDraw.Draw(self.layer)

    def _at(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [((x - self.x) * SCALE, (y - self.y) * SCALE) for x, y in points]

    def rect(self, x0: float, y0: float, x1: float, y1: float, fill: Colour) -> None:
        (a, b), (c, d) = self._at([(min(x0, x1), min(y0, y1)), (max(x0, x1), max(y0, y1))])
        if c - a >= 1 and d - b >= 1:
            self.draw.rectangle((a, b, c - 1, d - 1), fill=self.canvas.ink(fill))

    def line(self, points: Sequence[tuple[float, float]], colour: Colour, width: float = 2) -> None:
        self.draw.line(
            self._at(points), fill=self.canvas.ink(colour), width=max(1, round(width * SCALE)), joint="curve"
        )

    def dashed(self, x0: float, y: float, x1: float, colour: Colour, dash: float = 4) -> None:
        x = x0
        while x < x1:
            self.line([(x, y), (min(x + dash, x1), y)], colour, 0.6)
            x += 2 * dash

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        (a, b), (c, d) = self._at([(x - radius, y - radius), (x + radius, y + radius)])
        self.draw.ellipse((a, b, c, d), fill=self.canvas.ink(fill))

    def slice(
        self, x: float, y: float, radius: float, start: float, end: float, fill: Colour, hole: float = 0.0
    ) -> None:
        """A pie slice; angles in degrees clockwise from twelve."""
        (a, b), (c, d) = self._at([(x - radius, y - radius), (x + radius, y + radius)])
        if end - start > 0.05:
            self.draw.pieslice(
                (a, b, c, d),
                start - 90,
                end - 90,
                fill=self.canvas.ink(fill),
                outline=self.canvas.ink(self.canvas.paper),
                width=2,
            )
        if hole:
            self.disc(x, y, radius * hole, self.canvas.paper)

    def done(self) -> None:
        self.canvas.image.paste(self.layer.reduce(SCALE), (self.x, self.y))


def around(x: float, y: float, radius: float, angle: float) -> tuple[float, float]:
    """The point at `angle` degrees clockwise from twelve.

    >>> [round(v) for v in around(0, 0, 10, 90)]
    [10, 0]
    """
    turn = math.radians(angle)
    return x + radius * math.sin(turn), y - radius * math.cos(turn)


def nice_step(top: float, ticks: int = 5) -> float:
    """
    >>> nice_step(93), nice_step(0.7), nice_step(41_000)
    (20, 0.2, 10000)
    """
    raw = max(top, 1e-9) / ticks
    power = 10 ** math.floor(math.log10(raw))
    step = next(m for m in (1, 2, 2.5, 5, 10) if m * power >= raw - 1e-12) * power
    return int(step) if step >= 1 and step == int(step) else round(step, 10)
