"""Judged queries + a model, or text -> numbers, plots, a report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"varsdoc.evaluation.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'varsdoc.evaluation' has no attribute {name!r}")
