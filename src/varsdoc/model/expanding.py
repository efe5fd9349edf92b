"""From one variant to K: probes, heads, and how copies begin to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from varsdoc.errors import ConfigError
from varsdoc.model.config import Heads
from varsdoc.model.processor import PageBatch
from varsdoc.model.qwen25vl import Qwen25VL

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc

PROBE_NOISE = 0.02


def reset_probes(model: VarsDoc, pages: PageBatch | None, seed: int) -> None:
    """`VarsDoc.reset_probes`."""
    if not model.config.probes or model.probes.is_meta:
        return
    backbone = Qwen25VL(model.backbone)
    with torch.no_grad():
        if pages is None:
            tokens = backbone.text.embed_tokens(torch.tensor(model.processor.prompt_ids, device=model.device))
        else:
            tokens = backbone.embed_pages(pages, model.config.image_mean, model.config.image_std)[pages.mask]
        noise = torch.randn(model.probes.shape, generator=torch.Generator().manual_seed(seed)).to(tokens)
        model.probes.copy_(tokens.mean(0) + PROBE_NOISE * tokens.std() * noise)


def expand(model: VarsDoc, variants: int, branch_layers: int | None, heads: Heads, noise: float, seed: int) -> None:
    """`VarsDoc.expand`."""
    old = model.config
    if old.variants != 1:
        raise ConfigError(f"Only a model with one variant can be expanded; this one has {old.variants}.")
    depth = old.branch_layers if branch_layers is None else branch_layers
    if old.branch_layers not in (0, depth):
        raise ConfigError(
            f"The probe was trained with branch_layers={old.branch_layers}; it cannot be expanded to {depth}."
        )
    if heads == "shared" and model.query_head is not None:
        raise ConfigError("This model has a query head of its own already; expand it with heads='separate'.")
    if not 0 <= noise < float("inf"):
        raise ConfigError(f"noise must be 0 or more, not {noise}.")
    same = (variants, depth) == (1, old.branch_layers)
    config = old.with_(variants=variants, branch_layers=depth, heads=heads, trained=old.trained and same)
    generator = torch.Generator().manual_seed(seed)

    def copies(x: Tensor) -> list[Tensor]:
        moved = [x.detach().clone() for _ in range(variants)]
        for copy in moved[1:]:
            spread = copy.float().std(correction=0)
            copy += noise * spread.to(copy) * torch.randn(copy.shape, generator=generator).to(copy)
        return moved

    model.fast = None
    model.reconfigure(config)
    if old.probes:
        model.probes = nn.Parameter(torch.cat(copies(model.probes)))
    else:
        model.probes = nn.Parameter(model.probes.new_empty(config.probes, config.hidden_size))
        reset_probes(model, None, seed)
    if heads == "separate":
        page, query = model.head(0), model.query_head or model.head(0)
        weights, biases = copies(page.weight), copies(page.bias)
        model.query_head = _linear(query.weight.detach().clone(), query.bias.detach().clone())
        model.heads = nn.ModuleList(_linear(w, b) for w, b in zip(weights, biases, strict=True))


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    head.weight, head.bias = nn.Parameter(weight), nn.Parameter(bias)
    return head
