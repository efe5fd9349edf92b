"""The page generator: pages with known words, content and queries, made from a seed (`PageStream`), or read from
real PDFs.
"""

from .degrade import Wear
from .fonts import find_fonts
from .page import Chart, Content, Fact, Field, Query, Sample, Series, Span, Table, Word
from .stream import PageStream

__all__ = [
    "Chart",
    "Content",
    "Fact",
    "Field",
    "PageStream",
    "Query",
    "Sample",
    "Series",
    "Span",
    "Table",
    "Wear",
    "Word",
    "find_fonts",
]
