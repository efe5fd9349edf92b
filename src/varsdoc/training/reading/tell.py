"""Tell whether a word is on a page at all: contrast between the pages of a step, word by word.

Finding a word's cell on its page is not enough to retrieve. On the first checkpoint 89 % of printed tokens found their
cell, and a rare word still ranked its own page first in 14 % of cases: a cell that looks a little like the word won on
some other page, and nothing had said that it must not. This loss says it. A word's score on a page is the mean over its
tokens of the best cell, as in MaxSim; its own page must win against every page of the step that does not print it.
Pages that print it too (presence bitmaps, words.py) count neither way. A word that all pages print costs nothing, so
small words weigh little by themselves.

The similarities of six thousand tokens with sixty pages are never held: `score_all` keeps one index per token, page and
variant. What remains is one number for each of them, some MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from varsdoc.training import losses
from varsdoc.training.reading.bank import Part, score_parts

Telling = Literal["best", "each"]


def tell(
    tokens: Tensor,
    keys: Tensor,
    known: Tensor,
    parts: Sequence[Part],
    temperature: float,
    variants: Telling = "best",
) -> tuple[Tensor, Tensor]:
    """Mean over words of InfoNCE among pages, and the share of words whose own page comes first.

    tokens (B, N, d)      vectors of N tokens of runs of printed words, for each page
    keys (B, N)           the word of each token, -1 for none; neighbours with one key are one word
    known (B, N, P) bool  pages that print the word of the token; a token of row b stands on page b
    parts                 vectors and masks of the P pages: those of the step, B of them, and then any of earlier steps
    variants              "best": a word's score on a page is that of its best variant, as a query of this word alone is
                          scored; "each": every variant must tell by itself, mean over them

    Two pages of one cell each; the word of page 0 is one token that fits its own page by 1 and the other by 0, the word
    of page 1 is printed on both and costs nothing: log(1 + e^-1).

    >>> pages = torch.eye(2).view(2, 1, 1, 2)
    >>> tokens, keys = torch.eye(2).view(2, 1, 2), torch.tensor([[5], [6]])
    >>> known = torch.tensor([[[True, False]], [[True, True]]])
    >>> tell(tokens, keys, known, [(pages, torch.ones(2, 1, dtype=torch.bool))], temperature=1.0)
    (tensor(0.3133), tensor(1.))
    """
    b, n, d = tokens.shape
    flat = tokens.reshape(b * n, 1, d)
    there = keys.flatten() >= 0
    best = score_parts(flat, there[:, None], parts).float()  # (B * N, P, K)
    word, first = number_words(keys)
    scores = _means(best, word.flatten(), there)  # (B * N, P, K): rows of words, then zeros
    own = torch.arange(b, device=keys.device).repeat_interleave(n)
    own, known, asked = (_per_word(x, word.flatten(), first.flatten()) for x in (own, known.flatten(0, 1), there))
    negatives = ~known & asked[:, None]
    negatives &= torch.arange(best.shape[1], device=keys.device) != own[:, None]
    counted = negatives.any(1)
    if variants == "best":
        scores = scores.amax(-1, keepdim=True)
    lost = torch.stack(
        [losses.infonce(s / temperature, own, negatives, "none") for s in scores.unbind(-1)]
    )  # (K or 1, words)
    total = counted.sum().clamp(min=1)
    with torch.no_grad():
        ranked = scores.amax(-1)
        mine = ranked.gather(1, own[:, None])
        beaten = (negatives & (ranked >= mine)).any(1)
        share = (counted & ~beaten).sum() / total
    return (lost.mean(0) * counted).sum() / total, share


def number_words(keys: Tensor) -> tuple[Tensor, Tensor]:
    """A number for each run of equal keys, counted through the batch, and whether a token begins one. keys (B, N).

    >>> number_words(torch.tensor([[7, 7, 8], [8, -1, 8]]))[0].tolist()
    [[0, 0, 1], [2, 3, 4]]
    """
    first = torch.ones_like(keys, dtype=torch.bool)
    first[:, 1:] = keys[:, 1:] != keys[:, :-1]
    return (first.flatten().cumsum(0) - 1).view_as(keys), first


def _means(best: Tensor, word: Tensor, there: Tensor) -> Tensor:
    """Token rows (N, P, K) to the means of their words, in as many rows (static shapes: no waiting for the GPU)."""
    sums = torch.zeros_like(best).index_add(0, word, best)
    count = torch.zeros(len(best), device=best.device).index_add(0, word, there.float())
    return sums / count.clamp(min=1)[:, None, None]


def _per_word(values: Tensor, word: Tensor, first: Tensor) -> Tensor:
    """A property that a word's tokens share, in the row of the word; rows beyond the last word are zero."""
    row = torch.where(first, word, len(word))  # tokens that begin no word go to a row that is dropped
    made = torch.zeros(len(word) + 1, *values.shape[1:], dtype=values.dtype, device=values.device)
    made[row] = values
    return made[:-1]
