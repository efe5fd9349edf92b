"""Pages and questions -> tensors: prompts, tokens, positions, left padding. No torchvision, no transformers processor.

Positions are Qwen's M-RoPE, three axes (time, row, column), computed here and always passed on: transformers falls
back to one axis without a word when its `mm_token_type_ids` is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from tokenizers import Tokenizer

from varsdoc.errors import CheckpointError, InputError
from varsdoc.image import ImageLike, read_image
from varsdoc.model.config import VarsConfig
from varsdoc.model.orientation import cut_any_way
from varsdoc.model.paper import on_light_paper
from varsdoc.model.patches import Patches, cut

IMAGE_TOKEN = "<|image_pad|>"


class _Batch:
    def pinned(self: BatchT) -> BatchT:
        """In page-locked memory, from which a GPU copies without the host waiting."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{k: v.pin_memory() if isinstance(v, torch.Tensor) else v for k, v in kept.items()})

    def to(self: BatchT, device: torch.device | str) -> BatchT:
        ahead = torch.device(device).type == "cuda"  # on mps a copy that is not waited for may read freed memory
        moved = {
            f.name: value.to(device, non_blocking=ahead)
            if isinstance(value := getattr(self, f.name), torch.Tensor)
            else value
            for f in fields(self)  # type: ignore[arg-type]
        }
        return type(self)(**moved)


BatchT = TypeVar("BatchT", bound=_Batch)


@dataclass(frozen=True)
class PageBatch(_Batch):
    """B pages, left-padded to M document tokens."""

    input_ids: torch.Tensor  # (B, M)
    mask: torch.Tensor  # (B, M) bool, False on padding
    positions: torch.Tensor  # (3, B, M)
    pixels: torch.Tensor  # (all patches, 3 * patch * patch) uint8
    grids: tuple[tuple[int, int], ...]  # rows and columns of patches of each page
    image_start: int  # where the image tokens begin in an unpadded page

    def __len__(self) -> int:
        return len(self.grids)


@dataclass(frozen=True)
class QueryBatch(_Batch):
    """B questions, left-padded to T tokens."""

    input_ids: torch.Tensor  # (B, T)
    mask: torch.Tensor  # (B, T) bool
    positions: torch.Tensor  # (3, B, T)

    def __len__(self) -> int:
        return len(self.input_ids)


class Processor:
    """Turns page images and questions into batches, as ColQwen2.5 does, with every choice taken from the config."""

    def __init__(self, config: VarsConfig, tokenizer: Tokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = False
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        before, after = config.page_prompt.split(IMAGE_TOKEN)
        self._before = tokenizer.encode(before, add_special_tokens=False).ids
        self._after = tokenizer.encode(after, add_special_tokens=False).ids
        self._image_id = self._special(IMAGE_TOKEN)
        self._augment_id = self._special(config.augmentation_token)
        if self._image_id != config.backbone.image_token_id:
            raise CheckpointError(
                f"The tokenizer gives {IMAGE_TOKEN} the id {self._image_id}, but config.json says "
                f"{config.backbone.image_token_id}; they belong to different models."
            )
        rows = config.backbone.text_config.vocab_size
        if tokenizer.get_vocab_size() > rows:
            raise CheckpointError(
                f"The tokenizer has {tokenizer.get_vocab_size()} tokens, but the model embeds only {rows}; "
                "they belong to different models."
            )

    def _special(self, token: str) -> int:
        index = self.tokenizer.token_to_id(token)
        if index is None:
            raise CheckpointError(
                f"The tokenizer lacks the token {token}; use the tokenizer.json of a Qwen2.5-VL model."
            )
        return int(index)

    @property
    def prompt_ids(self) -> list[int]:
        """The text tokens around a page, for the start of the probes."""
        return [*self._before, *self._after]

    @property
    def image_start(self) -> int:
        return len(self._before)

    def page(self, image: ImageLike | Patches, name: str = "the page") -> Patches:
        """Read and cut one page; one that was cut already is taken as it is. Needs no torch, so a worker can do it."""
        if isinstance(image, Patches):
            return image
        read = read_image(image, name)
        read = on_light_paper(read) if self.config.light_paper else read
        looks = self.config.level_print or self.config.turn_pages
        return cut_any_way(read, self.config) if looks else cut(read, self.config)

    def page_tokens(self, patches: Patches) -> int:
        """How many document tokens a page becomes."""
        return len(self._before) + len(patches.pixels) // self.config.merge_size**2 + len(self._after)

    def pages(self, pages: Sequence[Patches]) -> PageBatch:
        """Batch cut pages."""
        merge = self.config.merge_size
        ids = [[*self._before, *[self._image_id] * (len(page.pixels) // merge**2), *self._after] for page in pages]
        positions = [
            page_positions(len(self._before), p.rows // merge, p.cols // merge, len(self._after)) for p in pages
        ]
        input_ids, mask, padded = _pad_left(ids, positions, self._augment_id)
        pixels = torch.cat([torch.from_numpy(page.pixels) for page in pages])
        grids = tuple((page.rows, page.cols) for page in pages)
        return PageBatch(input_ids, mask, padded, pixels, grids, self.image_start)

    def page_frame(self, rows: int, cols: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids (1, M), mask (1, M) and positions (3, 1, M) of a page of rows x cols cells: all but its pixels."""
        ids = [*self._before, *[self._image_id] * (rows * cols), *self._after]
        positions = page_positions(len(self._before), rows, cols, len(self._after))
        return _pad_left([ids], [positions], self._augment_id)

    def query_ids(self, text: str, name: str = "the query") -> list[int]:
        """Prefix, text, augmentation. What goes beyond `max_query_tokens` is cut from the end of the text."""
        if not isinstance(text, str):
            raise InputError(f"{name} is a {type(text).__name__}; give the question as text.")
        if not text.strip():
            raise InputError(f"{name} is empty; write what the page should be about.")
        room = self.config.max_query_tokens - self.config.query_augmentation
        # What a user types must never become a control token. Set here, because a copied tokenizer forgets it.
        self.tokenizer.encode_special_tokens = True
        try:
            ids = self.tokenizer.encode(self.config.query_prefix + text, add_special_tokens=False).ids
        except Exception as error:  # lone surrogates and the like
            raise InputError(f"{name} cannot be read as text ({error}).") from error
        return [*ids[:room], *[self._augment_id] * self.config.query_augmentation]

    def queries(self, ids: Sequence[Sequence[int]]) -> QueryBatch:
        """Batch questions that `query_ids` tokenised."""
        positions = [torch.arange(len(row)).expand(3, -1) for row in ids]
        return QueryBatch(*_pad_left(ids, positions, self._augment_id))


def page_positions(before: int, rows: int, cols: int, after: int) -> torch.Tensor:
    """M-RoPE ids (3, M) of a page: text counts on along all axes; a cell has its image's time, its row, its column.

    >>> page_positions(1, 2, 2, 2)
    tensor([[0, 1, 1, 1, 1, 3, 4],
            [0, 1, 1, 2, 2, 3, 4],
            [0, 1, 2, 1, 2, 3, 4]])
    """
    cells = torch.stack(
        [
            torch.zeros(rows * cols, dtype=torch.long),
            torch.arange(rows).repeat_interleave(cols),
            torch.arange(cols).repeat(rows),
        ]
    )
    end = before + max(rows, cols)
    return torch.cat(
        [torch.arange(before).expand(3, -1), cells + before, torch.arange(end, end + after).expand(3, -1)], 1
    )


def _pad_left(
    ids: Sequence[Sequence[int]], positions: Sequence[torch.Tensor], pad: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    width = max(len(row) for row in ids)
    input_ids = torch.full((len(ids), width), pad, dtype=torch.long)
    mask = torch.zeros(len(ids), width, dtype=torch.bool)
    padded = torch.zeros(3, len(ids), width, dtype=torch.long)
    for i, row in enumerate(ids):
        start = width - len(row)
        input_ids[i, start:] = torch.tensor(row, dtype=torch.long)
        mask[i, start:] = True
        padded[:, i, start:] = positions[i]
    return input_ids, mask, padded
