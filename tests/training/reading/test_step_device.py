"""A step makes every tensor on the model's device. The meta device shows it without a GPU: mixed with the CPU it fails.

A mix of devices once cost five minutes of a lease, in code that every test had passed on the CPU.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tiny
from varsdoc.training.reading.bank import Bank, Ranked
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import Drawn
from varsdoc.training.reading.printed import PRINTED, Spelling
from varsdoc.training.reading.step import Shapes, _contrast, step
from varsdoc.training.reading.targets import PLACES, TOKENS
from varsdoc.training.reading.words import BITS


def empty_model(model: nn.Module) -> nn.Module:
    """In place: parameters in bfloat16 and buffers as they are, all without data."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = nn.Parameter(parameter.detach().to("meta", torch.bfloat16))
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = buffer.to("meta")
    return model


@pytest.mark.parametrize(("variants", "aggregation"), [(1, "max"), (3, "max"), (3, "fused"), (3, "both")])
def test_a_step_stays_on_its_device(variants: int, aggregation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(x: Tensor, minlength: int = 0) -> Tensor:
        return torch.zeros(minlength, dtype=torch.int64, device=x.device)

    monkeypatch.setattr(torch, "bincount", count)  # its size depends on data, which there is none of
    several = variants > 1
    model = tiny.model(variants, 2 if several else 0, heads="separate" if several else "shared")
    empty_model(model).train()
    rows, cols = SHAPES[0]

    def zeros(*size: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(3, *size, dtype=dtype, device="meta")

    drawn = Drawn(
        0,
        zeros(rows * cols * 4, 588, dtype=torch.uint8),
        zeros(4, TOKENS, dtype=torch.int16),
        zeros(4, TOKENS, dtype=torch.int32),
        zeros(dtype=torch.int64),
        zeros(PRINTED, 3, dtype=torch.int32),
        zeros(PLACES, 2, dtype=torch.int32),
        zeros(BITS // 8, dtype=torch.uint8),
    )
    config = ReadConfig(variants=variants, assign=0.1, aggregation=aggregation)  # type: ignore[arg-type]
    bank, spelling, shapes = Bank(1), Spelling().to("meta"), Shapes(model)
    for fair in (False, True):  # the second time beside the pages of the first
        losses = step(model, spelling, shapes, drawn, config, None, bank, fair)  # type: ignore[arg-type]
        assert (losses.total.device.type, losses.total.dtype) == ("meta", torch.float32)
    losses.total.backward()
    learnt = [p for p in model.parameters() if p.numel()]
    assert all(p.grad is not None and p.grad.dtype == torch.bfloat16 for p in learnt)


def test_contrast_on_both_is_the_mean_of_contrast_on_each() -> None:
    generator = torch.Generator().manual_seed(3)
    pages, kept, dim = 5, 2, 8

    def units(*size: int) -> Tensor:
        return nn.functional.normalize(torch.randn(*size, dim, generator=generator), dim=-1)

    ids = torch.randint(0, 90, (pages, kept, 6), generator=generator, dtype=torch.int16)
    keys = ids.int() + 7
    numbers = torch.arange(pages)
    present = torch.zeros(pages, BITS // 8, dtype=torch.uint8)
    drawn = Drawn(0, present, ids, keys, numbers, present, present, present)
    texts = torch.arange(pages * kept).view(pages, kept)
    ranked = [Ranked(units(pages, 3, 4), torch.ones(pages, 4, dtype=torch.bool), numbers, present, texts)]
    by_page = units(pages, kept, 6)
    losses = {}
    for aggregation in ("max", "fused", "both"):
        config = ReadConfig(aggregation=aggregation, contrast=kept)  # type: ignore[arg-type]
        losses[aggregation] = _contrast(by_page, drawn, ranked, config)[0]
    assert not torch.isclose(losses["max"], losses["fused"])
    torch.testing.assert_close(losses["both"], (losses["max"] + losses["fused"]) / 2)
