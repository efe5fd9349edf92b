"""VaRS-Doc itself, and what it loads: ColQwen2.5 releases and ColNomic, which is a ColQwen2.5 trained on other data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from varsdoc.evaluation.retrievers.opening import shown_name
from varsdoc.evaluation.retrievers.protocol import Identity, Layout, Vectors
from varsdoc.model import VarsDoc


class VarsDocRetriever:
    """The encoder as it is. K=1 says whether its probe is there (warm-up) or not (plain ColQwen2.5)."""

    def __init__(
        self,
        source: str | None = None,
        kind: str = "varsdoc",
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_visual_tokens: int | None = None,
        model: VarsDoc | None = None,
        **options: Any,
    ) -> None:
        self.model = (
            model
            or VarsDoc.from_pretrained(
                source, device=device, dtype=dtype, max_visual_tokens=max_visual_tokens, **options
            ).prepare_on_gpu()
        )
        config = self.model.config
        self.identity = Identity(
            shown_name(source if model is None else model.source),
            kind,
            self.model.checkpoint_hash,
            config.variants,
            config.max_visual_tokens,
            self.model.compute_dtype,
            self.model.device.type,
            describe(config),
        )

    def encode_pages(self, images: Sequence[Any]) -> list[Vectors]:
        return [_numpy(page.variants) for page in self.model.encode_pages(list(images), progress=False)]

    def encode_queries(self, texts: Sequence[str]) -> list[Vectors]:
        return [_numpy(query) for query in self.model.encode_queries(list(texts), progress=False)]

    def layout(self, image: Any, vectors: int) -> Layout:
        """Where a page's cells are among its vectors; needs no forward pass.

        Which way a page that may lie on its side was read is told by how many vectors it has; where several ways have
        as many, rows below the page point nowhere.
        """
        page = self.model.processor.page(image)
        ways = [way for way in (page, *page.others) if self.model.processor.page_tokens(way) == vectors] or [page]
        rows, cols = ways[0].grid(self.model.config.merge_size)
        levelled = ways[0].levelled if len({way.levelled for way in ways}) == 1 else ()
        return Layout(rows, cols, self.model.processor.image_start, levelled)


def describe(config: Any) -> str:
    """Which model it is in the paper's terms."""
    if config.variants > 1 and not config.branch_layers:
        said = f"K={config.variants}, projection only (no probe)"
    elif config.branch_layers:
        one = "one visible probe (warm-up)" if config.variants == 1 else f"n={config.branch_layers}"
        said = f"K={config.variants}, {one}"
    else:
        said = "K=1, plain (no probe)"
    return said if config.trained or not config.probes else f"{said}, untrained probes or heads"


def _numpy(tensor: Any) -> Vectors:
    return np.asarray(tensor.float().cpu().numpy())
