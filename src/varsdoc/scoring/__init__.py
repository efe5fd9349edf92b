"""Embeddings -> scores: variant-aware MaxSim and its aggregations."""

from varsdoc.scoring.maxsim import Aggregation, Scores, score_pages

__all__ = ["Aggregation", "Scores", "score_pages"]
