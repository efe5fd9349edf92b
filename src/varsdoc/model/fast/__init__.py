"""The encoder as a GPU likes it: packed rows, fused and aligned weights, compiled pieces, a graph for questions."""

from varsdoc.model.fast.encoder import FastEncoder

__all__ = ["FastEncoder"]
