"""CLIP and SigLIP: one vector a page, one a question, cosine. Long questions are cut, as these models must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from varsdoc.evaluation.retrievers.foreign import Foreign, unit


class DualEncoder(Foreign):
    """Two towers. SigLIP was trained with texts padded to full length, so they are padded so here."""

    types = ("clip", "siglip", "siglip2")

    def load(self) -> None:
        self.model = self.pretrained(AutoModel)
        self.images = AutoImageProcessor.from_pretrained(self.folder, backend="pil", local_files_only=True)
        self.tokens = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        self.length = int(self.model.config.text_config.max_position_embeddings)
        self.always_full = self.model.config.model_type.startswith("siglip")

    def token_cap(self) -> int | None:
        vision = self.model.config.vision_config
        return int((vision.image_size // vision.patch_size) ** 2) if hasattr(vision, "image_size") else None

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        inputs = self.to_device(self.images(list(images), return_tensors="pt"))
        return [vector[None] for vector in unit(_pooled(self.model.get_image_features(**inputs)))]

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        inputs = self.tokens(
            list(texts),
            padding="max_length" if self.always_full else "longest",
            max_length=self.length,
            truncation=True,
            return_tensors="pt",
        )
        kept = {"input_ids": inputs["input_ids"]}
        if not self.always_full:  # SigLIP attends to its padding
            kept["attention_mask"] = inputs["attention_mask"]
        features = _pooled(self.model.get_text_features(**self.to_device(kept)))
        return [vector[None] for vector in unit(features)]


def _pooled(features: Any) -> Tensor:
    """A tensor up to transformers 4, an output with a pooled tensor since 5."""
    pooled = features if isinstance(features, Tensor) else features.pooler_output
    assert isinstance(pooled, Tensor)
    return pooled
