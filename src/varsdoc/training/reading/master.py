"""bf16 weights that learn: the optimiser keeps float32 copies, so that small steps are not rounded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from varsdoc.training.reading.muon import BatchedMuon


class MasterWeights:
    """float32 masters of a module's parameters, with the optimisers over them.

    Matrices inside blocks go to Muon where it is asked for; embeddings, heads, norms, biases and the patch kernel
    always to AdamW. Masters and their gradients are views of one long vector each: widening, clipping and copying back
    are then a few operations instead of one for each of three hundred parameters.
    """

    def __init__(self, module: nn.Module, lr: float, weight_decay: float, muon: bool) -> None:
        self.live = [p for p in module.parameters() if p.requires_grad]
        self.flat = torch.cat([p.detach().flatten() for p in self.live]).float()
        self.master = [nn.Parameter(view) for view in self._views(self.flat, self.live)]
        names = [name for name, p in module.named_parameters() if p.requires_grad]
        inner = [muon and p.ndim == 2 and _in_block(name) for name, p in zip(names, self.live, strict=True)]
        self.optimisers: list[torch.optim.Optimizer | BatchedMuon] = [
            torch.optim.AdamW(
                _groups(names, self.master, [not x for x in inner], weight_decay),
                lr=lr,
                betas=(0.9, 0.98),
                eps=1e-8,
                fused=self.flat.is_cuda,
            )
        ]
        if muon:
            self.optimisers.append(
                BatchedMuon([p for p, chosen in zip(self.master, inner, strict=True) if chosen], lr, weight_decay)
            )
        self.lr = lr
        self.mean: Tensor | None = None
        self.remembered = 0

    def step(self, factor: float, max_norm: float) -> Tensor:
        """One update at `factor` of the learning rate; returns the norm of the gradient."""
        norm = self._take_gradients(max_norm)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self.lr * factor
            optimiser.step()
        with torch.no_grad():
            self._write_live()
        return norm

    @torch.no_grad()
    def remember(self) -> None:
        """The present masters take part in the mean."""
        self.remembered += 1
        if self.mean is None:
            self.mean = self.flat.detach().clone()
        else:
            self.mean.lerp_(self.flat, 1 / self.remembered)

    @torch.no_grad()
    def become_mean(self) -> None:
        """Masters and parameters are the mean of what was remembered from here on."""
        if self.mean is not None:
            self.flat.copy_(self.mean)
            self._write_live()

    def _write_live(self) -> None:
        narrow = self.flat.to(self.live[0].dtype)
        torch._foreach_copy_([p.data for p in self.live], self._views(narrow, self.live))

    def _take_gradients(self, max_norm: float) -> Tensor:
        """Gradients move to the masters, in float32 and no longer together than `max_norm`; all zero if one is not a
        number, so that a bad step leaves the weights and the optimisers' memory sound."""
        pairs = [(live, live.grad) for live in self.live]
        grads = torch.cat([grad.flatten() for _, grad in pairs if grad is not None]).float()
        norm = grads.norm()
        grads = torch.where(norm.isfinite(), grads * (max_norm / (norm + 1e-6)).clamp(max=1.0), 0.0)
        views = iter(self._views(grads, [live for live, grad in pairs if grad is not None]))
        for master, (live, grad) in zip(self.master, pairs, strict=True):
            master.grad, live.grad = None if grad is None else next(views), None
        return norm

    @staticmethod
    def _views(flat: Tensor, shaped: Sequence[Tensor]) -> list[Tensor]:
        parts = flat.split([p.numel() for p in shaped])
        return [part.view(p.shape) for part, p in zip(parts, shaped, strict=True)]


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
