"""bf16 weights that learn: the optimiser keeps float32 copies, so that small steps are not rounded away."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from varsdoc.training.reading.muon import BatchedMuon


class MasterWeights:
    """float32 masters of a module's parameters, with the optimisers over them.

    Matrices inside blocks go to Muon where it is asked for; embeddings, heads, norms, biases and the patch kernel
    always to AdamW.
    """

    def __init__(self, module: nn.Module, lr: float, weight_decay: float, muon: bool) -> None:
        self.live = [p for p in module.parameters() if p.requires_grad]
        self.master = [nn.Parameter(p.detach().float().clone()) for p in self.live]
        names = [name for name, p in module.named_parameters() if p.requires_grad]
        inner = [muon and p.ndim == 2 and _in_block(name) for name, p in zip(names, self.live, strict=True)]
        self.optimisers: list[torch.optim.Optimizer | BatchedMuon] = [
            torch.optim.AdamW(
                _groups(names, self.master, [not x for x in inner], weight_decay), lr=lr, betas=(0.9, 0.98), eps=1e-8
            )
        ]
        if muon:
            self.optimisers.append(
                BatchedMuon([p for p, chosen in zip(self.master, inner, strict=True) if chosen], lr, weight_decay)
            )
        self.lr = lr

    def step(self, factor: float, max_norm: float) -> Tensor:
        """One update at `factor` of the learning rate; returns the norm of the gradient."""
        for master, live in zip(self.master, self.live, strict=True):
            master.grad = None if live.grad is None else live.grad.float()
            live.grad = None
        norm = nn.utils.clip_grad_norm_(self.master, max_norm)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self.lr * factor
            optimiser.step()
        with torch.no_grad():
            torch._foreach_copy_([p.data for p in self.live], [p.data for p in self.master])
        return norm


def _in_block(name: str) -> bool:
    return ".layers." in name or ".blocks." in name


def _groups(
    names: Iterable[str], parameters: Iterable[nn.Parameter], chosen: Iterable[bool], decay: float
) -> list[dict[str, object]]:
    """Matrices decay; vectors and embeddings do not."""
    kept = [(n, p) for n, p, c in zip(names, parameters, chosen, strict=True) if c]
    heavy = [p for n, p in kept if p.ndim >= 2 and "embed_tokens" not in n]
    light = [p for n, p in kept if p.ndim < 2 or "embed_tokens" in n]
    return [{"params": heavy, "weight_decay": decay}, {"params": light, "weight_decay": 0.0}]
