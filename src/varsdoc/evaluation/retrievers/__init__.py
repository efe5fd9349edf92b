"""Retrievers behind one small protocol, and how one is opened by its checkpoint."""

from varsdoc.evaluation.retrievers.opening import KINDS, open_retriever
from varsdoc.evaluation.retrievers.protocol import Identity, Retriever

__all__ = ["KINDS", "Identity", "Retriever", "open_retriever"]
