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


@torch.no_grad()
def test_page_states_are_those_of_three_axes_and_not_of_one() -> None:
    """Our model against the stock one, given three axes and given the single one to which it falls back."""
    model = tiny.model(1, 0)
    batch = tiny.batch(model)
    ours = model.page_states(batch, "inference")[0][batch.mask]
    flat = batch.mask.long().cumsum(1).sub(1).clamp(min=0).expand(3, -1, -1)
    stock = tiny.stock_copy(model).language_model
    hidden, mask = tiny.embed(model, batch), batch.mask.long()
    three, one = (
        stock(inputs_embeds=hidden, position_ids=positions, attention_mask=mask).last_hidden_state[batch.mask]
        for positions in (batch.positions, flat)
    )
    torch.testing.assert_close(ours, three, atol=1e-5, rtol=0)
    assert (ours - one).abs().max() > 1e-2
