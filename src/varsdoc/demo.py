"""`varsdoc demo`: a few drawn pages, a few questions, ranked answers. Needs no file and no network."""

from __future__ import annotations

import time
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont


@dataclass(frozen=True)
class Sample:
    """A page that the demo draws, and a question that it answers."""

    name: str
    title: str
    lines: tuple[str, ...]
    question: str


SAMPLES = (
    Sample(
        "annual-report p.1",
        "Annual report 2024",
        (
            "Revenue grew by 12 % to 840 million euros.",
            "Europe contributed 41 % of it.",
            "Operating income: 96 million.",
        ),
        "How much did revenue grow?",
    ),
    Sample(
        "safety-manual p.7",
        "Emergency shutdown",
        ("1. Press the red button.", "2. Close valve B before valve A.", "3. Leave the hall and call extension 112."),
        "Which valve is closed first in an emergency?",
    ),
    Sample(
        "travel-form p.1",
        "Travel expense claim",
        (
            "Name: ____________   Department: ________",
            "Destination and purpose of the trip",
            "Attach receipts above 25 euros.",
        ),
        "travel expense form",
    ),
    Sample(
        "biology-paper p.3",
        "Results",
        (
            "Cell growth slowed at 39 degrees.",
            "Figure 2 shows survival by temperature.",
            "Controls were kept at 37 degrees.",
        ),
        "effect of temperature on cell growth",
    ),
)


def draw(sample: Sample) -> Image.Image:
    """A page of 560 x 784 pixels: 20 x 28 cells."""
    page = Image.new("RGB", (560, 784), "white")
    pen = ImageDraw.Draw(page)
    pen.text((56, 56), sample.title, fill="black", font=ImageFont.load_default(32))
    for i, line in enumerate(sample.lines):
        pen.text((56, 140 + 42 * i), line, fill="black", font=ImageFont.load_default(18))
    return page


def run() -> None:
    """Encode, ask, print."""
    from rich.console import Console
    from rich.table import Table

    from varsdoc.model import VarsDoc

    console = Console(highlight=False)
    model = VarsDoc.from_pretrained()
    started = time.perf_counter()
    pages = model.encode_pages([draw(sample) for sample in SAMPLES], progress=True)
    per_page = (time.perf_counter() - started) / len(pages)
    cells = pages[0].grid[0] * pages[0].grid[1]
    console.print(
        f"{len(pages)} pages of {cells} cells, {model.config.variants} variants each, {per_page:.2f} s a page "
        f"({model.compute_dtype}, {model.device})\n"
    )
    questions = [sample.question for sample in SAMPLES]
    scores = model.score(model.encode_queries(questions), pages)
    for q, question in enumerate(questions):
        table = Table(
            "rank", "page", "score", "variant", "scores of all variants", title=question, title_justify="left"
        )
        for rank, p in enumerate(scores.total[q].argsort(descending=True).tolist(), 1):
            each = "  ".join(f"{value:.2f}" for value in scores.variants[q, p].tolist())
            winner = str(int(scores.winner[q, p]))
            table.add_row(str(rank), SAMPLES[p].name, f"{scores.total[q, p]:.2f}", winner, each)
        console.print(table)
    if not model.config.trained:
        console.print("\nThis checkpoint is untrained: the order above is chance. It shows the path, not the quality.")
