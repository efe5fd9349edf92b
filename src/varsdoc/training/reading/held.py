"""Judged sets held on the device in the shapes of training: how well the piece retrieves, in seconds.

The pages are the same pixels up to the shape they are brought to, so the figure follows `varsdoc eval` closely; the
figures of a model card come from there, not from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varsdoc.model import VarsDoc
from varsdoc.training import losses
from varsdoc.training.judge import Judged, ndcg, read_judged
from varsdoc.training.reading.bank import fused_part
from varsdoc.training.reading.real import cut_pages
from varsdoc.training.reading.step import Shapes, narrow, query_vectors
from varsdoc.training.reading.targets import tokenise
from varsdoc.training.scoring import score_all

BATCH = 32


@dataclass(frozen=True)
class Held:
    name: str
    judged: Judged
    pixels: dict[int, tuple[Tensor, list[int]]]  # by shape: uint8 patches, page numbers
    ids: Tensor  # (Q, TOKENS)

    @classmethod
    def load(cls, folder: str, model: VarsDoc, workers: int) -> Held:
        chosen = Path(folder) / "queries_selfcontained.jsonl"
        judged = read_judged(folder, str(chosen) if chosen.is_file() else None)
        by_shape: dict[int, list[tuple[np.ndarray, int]]] = {}
        for page, (shape, pixels) in enumerate(cut_pages(judged, model.config, workers)):
            full = pixels if pixels.shape[1] > 196 else np.tile(pixels, (1, 3))
            by_shape.setdefault(shape, []).append((full, page))
        held = {
            shape: (torch.from_numpy(np.stack([p for p, _ in rows])), [i for _, i in rows])
            for shape, rows in by_shape.items()
        }
        tokenizer = model.processor.tokenizer
        ids = np.stack([tokenise(tokenizer, text, model.config)[0] for text in judged.queries])
        return cls(Path(folder).name, judged, held, torch.from_numpy(ids).long())

    @torch.no_grad()
    def quality(self, model: VarsDoc, shapes: Shapes) -> dict[str, Any]:
        """NDCG@10; with several variants also the share of the most used one and of ties, on gold pages."""
        ids = self.ids.to(model.device)  # it was loaded before the device was chosen
        mask = ids >= 0
        vectors = narrow(torch.cat([query_vectors(model, part) for part in ids.split(256)]))
        sums = torch.empty(len(self.ids), len(self.judged.pages), model.config.variants)
        fused = torch.empty(len(self.ids), len(self.judged.pages))
        for shape, (pixels, pages) in self.pixels.items():
            for start in range(0, len(pages), BATCH):
                rows = pixels[start : start + BATCH].to(model.device)
                encoded = model.forward_pages(shapes.batch(shape, rows), "training")
                cells = narrow(encoded.vectors)
                scores = score_all(vectors, mask, cells, encoded.mask)
                sums[:, pages[start : start + BATCH]] = scores.float().cpu()
                if model.config.variants > 1:
                    together = fused_part(cells, encoded.mask)
                    fused[:, pages[start : start + BATCH]] = score_all(vectors, mask, *together)[..., 0].float().cpu()
        facts: dict[str, Any] = {self.name: self._ndcg(sums.amax(-1))}
        if model.config.variants > 1:
            facts[f"{self.name}/fused"] = self._ndcg(fused)
            own = torch.stack([sums[i, max(g, key=g.__getitem__)] for i, g in enumerate(self.judged.grades)])
            wins = torch.bincount(own.argmax(1), minlength=own.shape[1]).float() / len(own)
            facts[f"{self.name}/usage"] = [round(x, 3) for x in wins.tolist()]
            facts[f"{self.name}/tied"] = round(losses.tied(own).float().mean().item(), 3)
            facts[f"{self.name}/each"] = [self._ndcg(sums[..., k]) for k in range(own.shape[1])]
        return facts

    def _ndcg(self, scores: Tensor) -> float:
        gains = [ndcg(scores[i], grades) for i, grades in enumerate(self.judged.grades)]
        return round(sum(gains) / len(gains), 4)
