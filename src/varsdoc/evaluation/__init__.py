"""Judged queries + a model, or text -> numbers, plots, a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from varsdoc.lazy import lazy_names

if TYPE_CHECKING:
    from varsdoc.evaluation.cache import Cache
    from varsdoc.evaluation.evaluate import How, Result, evaluate
    from varsdoc.evaluation.judged import JudgedSet, read_folder
    from varsdoc.evaluation.retrievers import Retriever, open_retriever

_PLACES = {
    "Cache": "cache",
    "How": "evaluate",
    "JudgedSet": "judged",
    "Result": "evaluate",
    "Retriever": "retrievers",
    "evaluate": "evaluate",
    "open_retriever": "retrievers",
    "read_folder": "judged",
}

__all__ = ["Cache", "How", "JudgedSet", "Result", "Retriever", "evaluate", "open_retriever", "read_folder"]

__getattr__ = lazy_names(__name__, _PLACES)
