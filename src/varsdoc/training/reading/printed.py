"""Every token that a page prints, and the cell in which it is printed: the densest supervision a page can give.

A query names a handful of a page's words; the page cost as much to encode whether six or four hundred of its words are
taught. So each page carries the list of all its tokens, and a step makes two things of it: transcripts, long queries
of consecutive printed words whose every token has a cell to find, and a loss that asks the vision tower alone to say,
in the language model's own token embeddings, what stands in a cell. The second makes a cell look to the language
model like the text it shows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.training.generator import Word
from varsdoc.training.reading.targets import TOKENS, Grid, plain

PRINTED = 448  # tokens kept of a page; a page with more gives a run of them
SCALE = 20.0  # of the cosine between a cell and a token embedding, at the start


@dataclass
class Speller:
    """Tokens of single words as they stand inside a query, with the place of each along the word."""

    tokenizer: Tokenizer
    known: dict[str, tuple[list[int], list[float]]] = field(default_factory=dict)

    def __call__(self, word: str) -> tuple[list[int], list[float]]:
        """Token ids, and the middle of each token as a share of the word's width."""
        if word not in self.known:
            encoded = self.tokenizer.encode(" " + word, add_special_tokens=False)
            places = [((max(a, 1) + max(b, 1)) / 2 - 1) / len(word) for a, b in encoded.offsets]
            if len(self.known) > 200_000:
                self.known.clear()
            self.known[word] = (encoded.ids, places)
        return self.known[word]


def printed_tokens(words: Sequence[Word], grid: Grid, speller: Speller, start: float = 0.0) -> np.ndarray:
    """(PRINTED, 3) int32: token, cell, and a number that equal words share; -1 where there are no more.

    Case and outer punctuation are left out: a reader asks for "income" whether it is printed Income or INCOME.
    start  where the run begins on a page with too many tokens, as a share of what does not fit
    """
    rows: list[tuple[int, int, int]] = []
    for word in words:
        text = plain(word.text)
        if not text:
            continue
        ids, places = speller(text)
        key = zlib.crc32(text.encode()) & 0x7FFFFFFF
        x0, y0, x1, y1 = word.box
        upright = (y1 - y0) > 1.5 * (x1 - x0) and len(text) > 2  # an axis label, read upwards
        for token, place in zip(ids, places, strict=True):
            x = (x0 + x1) / 2 if upright else x0 + place * (x1 - x0)
            y = y1 - place * (y1 - y0) if upright else (y0 + y1) / 2
            row = min(max(int(y * grid.rows / grid.height), 0), grid.rows - 1)
            col = min(max(int(x * grid.cols / grid.width), 0), grid.cols - 1)
            rows.append((token, row * grid.cols + col, key))
    first = int(start * max(0, len(rows) - PRINTED))
    table = np.full((PRINTED, 3), -1, dtype=np.int32)
    kept = rows[first : first + PRINTED]
    if kept:
        table[: len(kept)] = kept
    return table


def transcripts(printed: Tensor, prefix: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` queries per page of consecutive printed tokens after the query prefix.

    Returns ids (B, count, TOKENS), -1 for padding, and keys (B, count, TOKENS): the word of each token, -1 for none.
    """
    b, width = len(printed), TOKENS - len(prefix)
    length = (printed[..., 0] >= 0).sum(1)  # (B,)
    space = (length - width).clamp(min=0)[:, None] + 1
    begin = (torch.rand(b, count, generator=generator, device=printed.device) * space).long()  # (B, count)
    index = begin[..., None] + torch.arange(width, device=printed.device)  # (B, count, width)
    beyond = index >= length[:, None, None]
    index = index.clamp(max=printed.shape[1] - 1).flatten(1)
    run = printed.gather(1, index[..., None].expand(-1, -1, 3)).unflatten(1, (count, width))
    ids = run[..., 0].masked_fill(beyond, -1)
    keys = run[..., 2].masked_fill(beyond, -1)
    head = prefix.to(ids.dtype).expand(b, count, -1)
    return torch.cat([head, ids], -1), torch.cat([torch.full_like(head, -1), keys], -1)


def word_cells(keys: Tensor, printed: Tensor, cells: int) -> Tensor:
    """Which cells show the word of a token: keys (B, N), printed (B, P, 3) -> (B, N, cells) bool.

    >>> printed = torch.tensor([[[5, 0, 77], [6, 2, 88], [5, 3, 77], [-1, -1, -1]]])
    >>> word_cells(torch.tensor([[77, -1]]), printed, 4).int().tolist()
    [[[1, 0, 0, 1], [0, 0, 0, 0]]]
    """
    same = (keys[..., None] == printed[:, None, :, 2]) & (keys[..., None] >= 0)  # (B, N, P)
    where = printed[:, None, :, 1].clamp(min=0).long().expand_as(same)
    shown = torch.zeros(*keys.shape, cells, dtype=torch.uint8, device=keys.device)
    return shown.scatter_reduce_(2, where, same.to(torch.uint8), "amax").bool()


class Spelling(nn.Module):
    """What stands in a cell, told by the vision tower in the token embeddings of the language model."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(SCALE).log())

    def forward(self, cells: Tensor, printed: Tensor, embedding: Tensor) -> Tensor:
        """Mean over printed tokens of -log p(token | its cell). cells (B, C, h), printed (B, P, 3), embedding (V, h).

        A cell that shows several tokens shares its mass among them; what is learnt is which ones.
        """
        page, entry = torch.nonzero(printed[..., 0] >= 0, as_tuple=True)
        if not len(page):
            return cells.sum() * 0
        token, cell = printed[page, entry, 0].long(), printed[page, entry, 1].long()
        shown = F.normalize(cells[page, cell].float(), dim=-1) * self.log_scale.float().clamp(max=4.0).exp()
        logits = shown.to(cells.dtype) @ F.normalize(embedding.float(), dim=-1).to(cells.dtype).T
        return F.cross_entropy(logits.float(), token)
