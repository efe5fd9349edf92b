"""Layouts: each draws one kind of page on a sheet. The weights say how often a stream shows it."""

from __future__ import annotations

from collections.abc import Callable

from ..sheet import Sheet
from .chart_pages import card, indicator, open_data, plot, poll
from .forms import form, listing, receipt
from .mixed import mixed
from .prose_pages import letter, paper, report, running
from .slides import slide
from .tables import table_page

Layout = Callable[[Sheet], None]
LAYOUTS: dict[str, Layout] = {
    "running": running,
    "paper": paper,
    "report": report,
    "letter": letter,
    "form": form,
    "receipt": receipt,
    "listing": listing,
    "table": table_page,
    "card": card,
    "poll": poll,
    "open_data": open_data,
    "plot": plot,
    "indicator": indicator,
    "slide": slide,
    "mixed": mixed,
}
WEIGHTS: dict[str, float] = {
    "running": 3,
    "paper": 2,
    "report": 2,
    "letter": 3,
    "form": 3,
    "receipt": 1.5,
    "listing": 1,
    "table": 3,
    "card": 2,
    "poll": 2,
    "open_data": 1.5,
    "plot": 1.5,
    "indicator": 1,
    "slide": 1.5,
    "mixed": 2.5,
}
CHARTS = frozenset(("card", "poll", "open_data", "plot", "indicator"))
