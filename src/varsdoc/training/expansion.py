"""What an expansion did: variant 1 is the warm-up model still, the others are not quite.

Copies of a probe sit at later positions and see the probes before them, so variants 2..K differ from variant 1 from the
first step on, without any noise. How much decides whether the losses can tell them apart.
"""

from __future__ import annotations

import torch

from varsdoc.model import PageBatch, QueryBatch, VarsDoc
from varsdoc.training.scoring import score_all


@torch.no_grad()
def expansion_gaps(model: VarsDoc, pages: PageBatch, queries: QueryBatch) -> list[float]:
    """Largest distance of each variant's score from variant 1's, on sum / query tokens, for variants 2..K."""
    encoded, asked = model.forward_pages(pages, "training"), model.forward_queries(queries, "training")
    scores = score_all(asked.vectors, asked.mask, encoded.vectors, encoded.mask) / asked.mask.sum(1)[:, None, None]
    return (scores - scores[..., :1]).abs().amax((0, 1))[1:].tolist()
