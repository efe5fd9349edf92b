"""M-RoPE ids are three-dimensional, and transformers' own."""

from __future__ import annotations

import torch

import tiny
from varsdoc.model.branches import Plan, _append_probes


def test_page_positions_equal_get_rope_index() -> None:
    model = tiny.model()
    batch = tiny.batch(model)
    grids = torch.tensor([(1, rows, cols) for rows, cols in batch.grids])
    kinds = (batch.input_ids == model.config.backbone.image_token_id).int()
    expected, _ = tiny.stock_copy(model).get_rope_index(
        batch.input_ids, image_grid_thw=grids, attention_mask=batch.mask.long(), mm_token_type_ids=kinds
    )
    assert torch.equal(batch.positions[:, batch.mask], expected[:, batch.mask])
    rows, columns = batch.positions[1], batch.positions[2]
    assert (rows != columns).any(), "rows and columns differ: the positions are not one-dimensional"


def test_query_positions_count_up_from_zero_after_the_padding() -> None:
    model = tiny.model()
    batch = model.processor.queries([model.processor.query_ids(t) for t in ("one", "a much longer question than that")])
    for axis in batch.positions:
        for row, mask in zip(axis, batch.mask, strict=True):
            assert torch.equal(row[mask], torch.arange(int(mask.sum())))


def test_probe_k_sits_at_the_last_position_plus_k_on_all_axes() -> None:
    model = tiny.model(3, 2)
    batch = tiny.batch(model)
    hidden = torch.zeros(*batch.input_ids.shape, 64)
    _, positions = _append_probes(hidden, batch.positions, batch.mask, model.probes, Plan(3, 2, 1))
    last = batch.positions[:, :, -1]
    for k in range(3):
        assert torch.equal(positions[:, :, batch.mask.shape[1] + k], last + 1 + k)


def test_embeddings_equal_a_stock_forward_with_three_axes_and_differ_from_one_axis() -> None:
    model = tiny.model(1, 0)
    batch = tiny.batch(model)
    stock = tiny.stock_copy(model)
    flat = batch.mask.long().cumsum(1).sub(1).clamp(min=0).expand(3, -1, -1)
    with torch.no_grad():
        hidden = stock.get_input_embeddings()(batch.input_ids)
        three, one = (
            stock.language_model(
                inputs_embeds=hidden, position_ids=p, attention_mask=batch.mask.long()
            ).last_hidden_state
            for p in (batch.positions, flat)
        )
    assert (three - one)[batch.mask].abs().max() > 1e-2
