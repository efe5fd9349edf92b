"""Every token that a page prints, and the cell in which it is printed: the densest supervision a page can give.

A query names a handful of a page's words; the page cost as much to encode whether six or four hundred of its words are
taught. So each page carries the list of all its tokens, and a step makes two things of it: transcripts, long queries
of consecutive printed words whose every token has a cell to find, and a loss that asks the vision tower alone to say,
in the language model's own token embeddings, what stands in a cell. The second makes a cell look to the language
model like the text it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.training.generator import Word
from varsdoc.training.generator.geometry import reading_line
from varsdoc.training.reading.targets import TOKENS, Grid
from varsdoc.training.reading.words import NONE, TRIM, plain, word_key

PRINTED = 1024  # tokens kept of a page; a page with more gives a run of them
SPELLED = 448  # tokens that the vision tower spells of a page in one step
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


def printed_tokens(
    words: Sequence[Word], grid: Grid, speller: Speller, start: float = 0.0, cased: bool = False
) -> np.ndarray:
    """(PRINTED, 3) int32: token, cell, and the key of its word; -1 where there are no more. Words are never cut.

    Outer punctuation is left out, and case: a reader asks for "income" whether it is printed Income or INCOME.
    start  where the run begins on a page with too many tokens, as a share of what does not fit
    cased  words as they are printed: names keep their capitals in questions, and their tokens are others then
    """
    rows: list[tuple[int, int, int]] = []
    begins: list[int] = []  # the row with which each word begins
    for word in words:
        text = word.text.strip(TRIM) if cased else plain(word.text)
        if not text:
            continue
        begins.append(len(rows))
        ids, places = speller(text)
        key = word_key(word.text)
        x0, y0, x1, y1 = reading_line(word)
        for token, place in zip(ids, places, strict=True):
            rows.append((token, grid.cell_at(x0 + place * (x1 - x0), y0 + place * (y1 - y0)), key))
    wanted = int(start * max(0, len(rows) - PRINTED))
    first = next((begin for begin in begins if begin >= wanted), 0)
    last = max((end for end in (*begins, len(rows)) if end - first <= PRINTED), default=0)
    table = np.full((PRINTED, 3), NONE, dtype=np.int32)
    if last > first:
        table[: last - first] = rows[first:last]
    return table


def transcripts(printed: Tensor, prefix: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` queries per page of consecutive printed words after the query prefix.

    Returns ids (B, count, TOKENS), -1 for padding, and keys (B, count, TOKENS): the word of each token, -1 for none.
    A run begins with the first token of a word and ends with the last of one: half a word is printed in many places.
    """
    b, width = len(printed), TOKENS - len(prefix)
    key = printed[..., 2]
    length = (printed[..., 0] >= 0).sum(1)  # (B,)
    space = (length - width).clamp(min=0)[:, None] + 1
    begin = (torch.rand(b, count, generator=generator, device=printed.device) * space).long()  # (B, count)
    begin = word_start(key).gather(1, begin)
    index = begin[..., None] + torch.arange(width + 1, device=printed.device)  # (B, count, width + 1)
    beyond = index >= length[:, None, None]
    index = index.clamp(max=printed.shape[1] - 1).flatten(1)
    run = printed.gather(1, index[..., None].expand(-1, -1, 3)).unflatten(1, (count, width + 1))
    run = run.masked_fill(beyond[..., None], NONE)
    keys = run[..., :width, 2]
    after = run[..., width:, 2]  # where it is the last word's, that word goes on beyond the run
    cut = (keys.flip(-1) == after).int().cummin(-1).values.flip(-1).bool()
    ids, keys = run[..., :width, 0].masked_fill(cut, NONE), keys.masked_fill(cut, NONE)
    head = prefix.to(ids.dtype).expand(b, count, -1)
    return torch.cat([head, ids], -1), torch.cat([torch.full_like(head, NONE), keys], -1)


def word_start(keys: Tensor) -> Tensor:
    """For each token the place at which its word begins, (B, P) -> (B, P).

    >>> word_start(torch.tensor([[7, 7, 8, 9, 9]])).tolist()
    [[0, 0, 2, 3, 3]]
    """
    place = torch.arange(keys.shape[1], device=keys.device).expand_as(keys)
    begins = torch.ones_like(keys, dtype=torch.bool)
    begins[:, 1:] = keys[:, 1:] != keys[:, :-1]
    return torch.where(begins, place, 0).cummax(1).values


def word_cells(keys: Tensor, places: Tensor, cells: int) -> Tensor:
    """Which cells show the word of a token: keys (B, N), places (B, P, 2) -> (B, N, cells) bool.

    >>> places = torch.tensor([[[77, 0], [88, 2], [77, 3], [-1, -1]]])
    >>> word_cells(torch.tensor([[77, -1]]), places, 4).int().tolist()
    [[[1, 0, 0, 1], [0, 0, 0, 0]]]
    """
    dtype = torch.bfloat16 if keys.is_cuda else torch.float32
    same = (keys[..., None] == places[:, None, :, 0]) & (keys[..., None] >= 0)  # (B, N, P)
    where = places[..., 1:].clamp(min=0).long()  # (B, P, 1)
    cell = torch.zeros(*where.shape[:2], cells, dtype=dtype, device=keys.device).scatter_(2, where, 1.0)
    # A product, not a scatter of (B, N, P) single bytes: that is forty million atomic updates.
    return same.to(dtype) @ cell > 0.5


class Spelling(nn.Module):
    """What stands in a cell, told by the vision tower in the token embeddings of the language model."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(SCALE).log())

    def forward(self, cells: Tensor, printed: Tensor, embedding: Tensor, generator: torch.Generator) -> Tensor:
        """Mean over printed tokens of -log p(token | its cell). cells (B, C, h), printed (B, P, 3), embedding (V, h).

        A cell that shows several tokens shares its mass among them; what is learnt is which ones. Of a page with more
        than SPELLED tokens as many are drawn.
        """
        there = printed[..., 0] >= 0
        chance = torch.rand(there.shape, generator=generator, device=there.device).masked_fill(~there, -1.0)
        picked = chance.topk(min(SPELLED, there.shape[1]), dim=1).indices  # (B, SPELLED)
        drawn = printed.gather(1, picked[..., None].expand(-1, -1, 3)).flatten(0, 1)
        page = torch.arange(len(cells), device=cells.device).repeat_interleave(picked.shape[1])
        token, cell = drawn[:, 0].long(), drawn[:, 1].long().clamp(min=0)
        shown = F.normalize(cells[page, cell].float(), dim=-1) * self.log_scale.float().clamp(max=4.0).exp()
        logits = shown.to(cells.dtype) @ F.normalize(embedding.float(), dim=-1).to(cells.dtype).T
        lost = F.cross_entropy(logits.float(), token, ignore_index=NONE, reduction="sum")
        return lost / there.sum(1).clamp(max=SPELLED).sum().clamp(min=1)
