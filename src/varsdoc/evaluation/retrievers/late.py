"""The late-interaction models that transformers carries: ColPali and ColQwen2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    ColPaliForRetrieval,
    ColPaliProcessor,
    ColQwen2ForRetrieval,
)

from varsdoc.evaluation.retrievers.foreign import Foreign, dropped
from varsdoc.evaluation.retrievers.qwen_inputs import QwenInputs


class _WithProcessor(Foreign):
    """Models whose processor does everything."""

    processor: Any

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        return self._embed(self.processor.process_images(images=list(images), return_tensors="pt"))

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        return self._embed(self.processor.process_queries(text=list(texts), return_tensors="pt"))

    def _embed(self, inputs: Any) -> list[Tensor]:
        moved = self.to_device(inputs)
        moved.pop("labels", None)
        return dropped(self.model(**moved).embeddings, moved["attention_mask"])


class ColPali(_WithProcessor):
    """PaliGemma with a projection; every page is a square of fixed size."""

    types = ("colpali",)

    def load(self) -> None:
        self.model = self.pretrained(ColPaliForRetrieval)
        images = AutoImageProcessor.from_pretrained(self.folder, backend="pil", local_files_only=True)
        self.processor = ColPaliProcessor(images, AutoTokenizer.from_pretrained(self.folder, local_files_only=True))

    def token_cap(self) -> int | None:
        return int(self.processor.image_seq_length)


class ColQwen2(Foreign):
    """Qwen2-VL with a projection.

    Its forward in transformers embeds first and drops the ids, so positions would silently be one-dimensional; the
    three axes that the model was trained with are computed here and passed.
    """

    types = ("colqwen2",)

    def load(self) -> None:
        self.model = self.pretrained(ColQwen2ForRetrieval)
        self.inputs = QwenInputs(self.folder, self.cap, query_end="\n")

    def token_cap(self) -> int | None:
        return self.inputs.token_cap

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        inputs = self.inputs.pages(images)
        patches = inputs["image_grid_thw"].prod(1).tolist()
        # The model undoes this padding; it is the form it takes a batch in.
        inputs["pixel_values"] = torch.nn.utils.rnn.pad_sequence(
            list(inputs["pixel_values"].split(patches)), batch_first=True
        )
        return self._embed(inputs)

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        return self._embed(self.inputs.queries(texts))

    def _embed(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        moved = self.to_device(inputs)
        positions, _ = self.model.vlm.get_rope_index(
            moved["input_ids"],
            mm_token_type_ids=moved.pop("mm_token_type_ids"),
            image_grid_thw=moved.get("image_grid_thw"),
            attention_mask=moved["attention_mask"],
        )
        return dropped(self.model(**moved, position_ids=positions).embeddings, moved["attention_mask"])
