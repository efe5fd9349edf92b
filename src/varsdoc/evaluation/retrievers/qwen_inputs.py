"""Page prompts and questions for Qwen-VL models, without their processor classes: those need torchvision for video."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoImageProcessor, AutoTokenizer

PAGE_PROMPT = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|><|endoftext|>"
IMAGE_TOKEN = "<|image_pad|>"


class QwenInputs:
    """A ColQwen-like model's inputs, left-padded.

    query_prefix, query_end  around the question; 10 augmentation tokens stand between it and the end
    """

    def __init__(
        self,
        folder: Path,
        max_visual_tokens: int | None,
        query_prefix: str = "Query: ",
        query_end: str = "",
        page_prompt: str = PAGE_PROMPT,
        augmentation: str = "<|endoftext|>",
    ) -> None:
        self.tokens = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.tokens.padding_side = "left"
        self.images = AutoImageProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
        self.cell = self.images.patch_size * self.images.merge_size
        if max_visual_tokens is not None:
            self.images.size["longest_edge"] = max_visual_tokens * self.cell**2
        self.query_prefix, self.query_end = query_prefix, query_end
        self.page_prompt, self.augmentation = page_prompt, augmentation
        self.image_id = self.tokens.convert_tokens_to_ids(IMAGE_TOKEN)

    @property
    def token_cap(self) -> int:
        return int(self.images.size["longest_edge"]) // self.cell**2

    def pages(self, images: Sequence[Any], prompts: Sequence[str] | None = None) -> dict[str, Tensor]:
        pixels = self.images(images=list(images), return_tensors="pt")
        cells = (pixels["image_grid_thw"].prod(1) // self.images.merge_size**2).tolist()
        prompts = prompts or [self.page_prompt] * len(cells)
        texts = [prompt.replace(IMAGE_TOKEN, IMAGE_TOKEN * n) for prompt, n in zip(prompts, cells, strict=True)]
        return {
            **self._tokens(texts),
            "pixel_values": pixels["pixel_values"],
            "image_grid_thw": pixels["image_grid_thw"],
        }

    def queries(self, texts: Sequence[str]) -> dict[str, Tensor]:
        return self._tokens([f"{self.query_prefix}{text}{self.augmentation * 10}{self.query_end}" for text in texts])

    def texts(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Texts as they are."""
        return self._tokens(list(texts))

    def _tokens(self, texts: list[str]) -> dict[str, Tensor]:
        found = self.tokens(texts, padding="longest", return_tensors="pt", add_special_tokens=False)
        ids: Tensor = found["input_ids"]
        return {
            "input_ids": ids,
            "attention_mask": found["attention_mask"],
            "mm_token_type_ids": (ids == self.image_id).to(torch.int32),
        }
