"""Embed a batch so that its loss can be taken apart from its backward pass.

The loss is computed on detached copies of the embeddings ("leaves"); its gradient at the leaves is then sent through
the model. Two things follow. Collectives of the loss never interleave with those of DDP, which only sees the second
half. And the first half may forget its graph: with several micro-batches (`grad_cache`) each is embedded without one,
and embedded again, with the same dropout, when its gradient is known. In-batch losses do not decompose over
micro-batches; this makes accumulation equal one large batch at the price of a second forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.model import Encoded
from varsdoc.training.data import Batch


@dataclass(frozen=True)
class Dropout:
    """The state of the generators that dropout draws from."""

    cpu: Tensor
    cuda: Tensor | None  # of this rank's device; asking for all would wake every GPU in every rank

    @classmethod
    def now(cls) -> Dropout:
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw the same numbers once more, then go on as if nothing had happened."""
        after = Dropout.now()
        self._set()
        try:
            yield
        finally:
            after._set()

    def _set(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


@dataclass
class Embedded:
    """A batch's embeddings, cut off from the model, and the way back."""

    model: nn.Module
    batches: tuple[Batch, ...]
    pages: list[Encoded] = field(default_factory=list)
    queries: list[Encoded] = field(default_factory=list)
    graph: list[Tensor] = field(default_factory=list)  # of the only micro-batch; empty under grad_cache
    dropout: list[Dropout] = field(default_factory=list)

    def joined(self) -> tuple[Encoded, Encoded]:
        """Pages and queries of all micro-batches as one batch."""
        return _join(self.pages), _join(self.queries)

    def backward(self) -> None:
        """Send the gradients that the leaves have received through the model."""
        grads = [(_grad(p.vectors), _grad(q.vectors)) for p, q in zip(self.pages, self.queries, strict=True)]
        if self.graph:
            torch.autograd.backward(self.graph, list(grads[0]))
            return
        last = len(self.batches) - 1
        for i, (batch, dropout) in enumerate(zip(self.batches, self.dropout, strict=True)):
            with dropout.again(), _no_sync(self.model) if i < last else nullcontext():
                pages, queries = self.model(batch.pages, batch.queries, path="training")
                torch.autograd.backward([pages.vectors, queries.vectors], list(grads[i]))


def embed(model: nn.Module, batches: tuple[Batch, ...]) -> Embedded:
    """One micro-batch keeps its graph; several are embedded without and again in `backward`."""
    embedded = Embedded(model, batches)
    for batch in batches:
        embedded.dropout.append(Dropout.now())
        with nullcontext() if len(batches) == 1 else torch.no_grad():
            pages, queries = model(batch.pages, batch.queries, path="training")
        embedded.pages.append(_leaf(pages))
        embedded.queries.append(_leaf(queries))
        if len(batches) == 1:
            embedded.graph = [pages.vectors, queries.vectors]
    return embedded


def _leaf(encoded: Encoded) -> Encoded:
    return Encoded(encoded.vectors.detach().requires_grad_(), encoded.mask)


def _grad(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _join(parts: list[Encoded]) -> Encoded:
    """Micro-batches are padded on their own; bring them to one width. The mask says what is real."""
    width = max(part.mask.shape[1] for part in parts)
    return Encoded(
        torch.cat([F.pad(part.vectors, (0, 0, 0, width - part.mask.shape[1])) for part in parts]),
        torch.cat([F.pad(part.mask, (0, width - part.mask.shape[1])) for part in parts]),
    )


def _no_sync(model: Any) -> AbstractContextManager[None]:
    """Under DDP only the last micro-batch exchanges gradients."""
    return model.no_sync() if hasattr(model, "no_sync") else nullcontext()
