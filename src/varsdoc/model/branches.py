"""Shared contextualisation and branched encoding, three times: plain, fast for inference, fast for training.

1. `encode_reference` is the paper with dense float masks and stock blocks, one branch after the other. Left-padded.
2. `encode_inference` shares what branches share. A document token gains only its own probes' keys, so causal attention
   is computed once with its log-sum-exp and the extra keys are merged in closed form. In the first branched block the
   queries, keys, values, causal attention and the probe rows' whole output are common to all branches; from the second
   on everything is per branch; in the last block probes are keys only.
3. `encode_training` runs stock blocks on all branches at once with the probes' keys leading a causal sequence:
   differentiable, no log-sum-exp, and FSDP, LoRA and gradient checkpointing see ordinary blocks.

Held equal by tests/model/test_branches.py, gradients included. 2 and 3 work on right-padded rows
`[documents, padding, probes]`; positions come with the tokens, so the side of the padding is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.model.attention import TokenLayout, attend_probes, causal_with_lse, merge_keys
from varsdoc.model.qwen25vl import Qwen25VL, Rotary


@dataclass(frozen=True)
class Plan:
    """K variants over the last n blocks, each with P probes of its own."""

    variants: int
    branch_layers: int
    probes_per_variant: int

    @property
    def probes(self) -> int:
        return self.variants * self.probes_per_variant if self.branch_layers else 0

    def own(self, device: torch.device) -> Tensor:
        """(K, P): the probes that variant k sees."""
        return torch.arange(self.probes, device=device).view(self.variants, self.probes_per_variant)


def encode_reference(
    model: Qwen25VL, hidden: Tensor, positions: Tensor, mask: Tensor, probes: Tensor, plan: Plan
) -> Tensor:
    """hidden (B, M, H) left-padded, positions (3, B, M), mask (B, M) -> states after the last block (K, B, M, H)."""
    m = hidden.shape[1]
    rows, positions = _append_probes(hidden, positions, mask, probes, plan)
    rotary = model.rotary(rows, positions)
    size = rows.shape[1]
    seen = torch.cat([mask, mask.new_ones(len(mask), plan.probes)], 1)
    causal = torch.ones(size, size, dtype=torch.bool, device=mask.device).tril()
    # Padding sees itself, so that no row of the softmax is empty.
    visible = (causal & seen[:, None, :]) | torch.eye(size, dtype=torch.bool, device=mask.device)
    first = len(model.blocks) - plan.branch_layers
    for i in range(first):
        rows = model.block(i, rows, rotary, None, _additive(visible, rows.dtype))
    if not plan.branch_layers:
        return rows[None].expand(plan.variants, -1, -1, -1)
    branches = []
    for own in plan.own(mask.device):
        in_branch = visible.clone()
        in_branch[:, :m, m + own] = True
        state = rows
        for i in range(first, len(model.blocks)):
            state = model.block(i, state, rotary, None, _additive(in_branch, rows.dtype))
        branches.append(state[:, :m])
    return torch.stack(branches)


def encode_training(
    model: Qwen25VL, hidden: Tensor, positions: Tensor, mask: Tensor, probes: Tensor, plan: Plan
) -> Tensor:
    """As `encode_reference`, on right-padded rows, differentiable and without a dense mask over the page."""
    m, batch, variants = hidden.shape[1], hidden.shape[0], plan.variants
    rows, rotary, layout = _shared(model, hidden, positions, mask, probes, plan)
    if not plan.branch_layers:
        return rows[None].expand(variants, -1, -1, -1)
    rows = rows.repeat(variants, 1, 1)  # (K * B, M + R, H), branch by branch
    rotary = _repeat(rotary, variants)
    assert layout.probe_mask is not None
    own = plan.own(mask.device).repeat_interleave(batch, 0)
    branched = TokenLayout(m, layout.probe_mask.repeat(variants, 1, 1, 1), own)
    for i in range(len(model.blocks) - plan.branch_layers, len(model.blocks)):
        rows = model.block(i, rows, rotary, branched)
    return rows[:, :m].unflatten(0, (variants, batch))


def encode_inference(
    model: Qwen25VL, hidden: Tensor, positions: Tensor, mask: Tensor, probes: Tensor, plan: Plan
) -> Tensor:
    """As `encode_training`, sharing the work of the branches; refuses tensors that need a gradient."""
    rows, rotary, layout = _shared(model, hidden, positions, mask, probes, plan)
    if not plan.branch_layers:
        return rows[None].expand(plan.variants, -1, -1, -1)
    assert layout.probe_mask is not None
    m, last = hidden.shape[1], len(model.blocks) - 1
    first = last + 1 - plan.branch_layers
    documents, probe_rows = _first_branched_block(model, first, rows, rotary, layout.probe_mask, plan, first == last)
    variants, batch = documents.shape[:2]
    rotary = _repeat(rotary, variants)
    probe_mask = layout.probe_mask.repeat(variants, 1, 1, 1)
    probe_rows = probe_rows.repeat(variants, 1, 1)
    documents = documents.flatten(0, 1)  # (K * B, M, H)
    for i in range(first + 1, last + 1):
        rows = torch.cat([documents, probe_rows], 1)
        q, k, v = model.qkv(i, rows, rotary)
        out, lse = causal_with_lse(q[:, :, :m], k[:, :, :m], v[:, :, :m], model.scale)
        own_k, own_v = (_own_probes(x[:, :, m:], plan, batch) for x in (k, v))
        logits = q[:, :, :m].float() @ own_k.float().transpose(2, 3) * model.scale
        documents = model.finish(i, documents, merge_keys(out, lse, logits, own_v))
        if i < last:
            probe_rows = model.finish(i, probe_rows, attend_probes(q[:, :, m:], k, v, probe_mask, model.scale))
    return documents.unflatten(0, (variants, batch))


def _first_branched_block(
    model: Qwen25VL, index: int, rows: Tensor, rotary: Rotary, probe_mask: Tensor, plan: Plan, is_last: bool
) -> tuple[Tensor, Tensor]:
    """All branches enter with the same rows: only merge, output projection and feed-forward of documents differ."""
    m = rows.shape[1] - plan.probes
    q, k, v = model.qkv(index, rows, rotary)
    out, lse = causal_with_lse(q[:, :, :m], k[:, :, :m], v[:, :, :m], model.scale)
    logits = q[:, :, :m].float() @ k[:, :, m:].float().transpose(2, 3) * model.scale  # (B, heads, M, R)
    logits = logits.unflatten(3, (plan.variants, plan.probes_per_variant)).movedim(3, 0)
    own_v = v[:, :, m:].unflatten(2, (plan.variants, plan.probes_per_variant)).movedim(2, 0)
    attended = merge_keys(out[None], lse[None], logits, own_v)  # (K, B, heads, M, d)
    documents = model.finish(index, rows[None, :, :m].expand(plan.variants, -1, -1, -1), attended)
    if is_last:
        return documents, rows[:, m:]
    return documents, model.finish(index, rows[:, m:], attend_probes(q[:, :, m:], k, v, probe_mask, model.scale))


def _own_probes(x: Tensor, plan: Plan, batch: int) -> Tensor:
    """(K * B, heads, R, d) -> of each branch its own probes (K * B, heads, P, d)."""
    p = plan.probes_per_variant
    branches = x.unflatten(0, (plan.variants, batch))
    return torch.cat([branches[i, :, :, i * p : (i + 1) * p] for i in range(plan.variants)])


def _shared(
    model: Qwen25VL, hidden: Tensor, positions: Tensor, mask: Tensor, probes: Tensor, plan: Plan
) -> tuple[Tensor, Rotary, TokenLayout]:
    """Blocks 1..L-n, right-padded: the page never sees a probe, probe k sees the page and the probes before it."""
    m, r = hidden.shape[1], plan.probes
    rows, positions = _append_probes(hidden, positions, mask, probes, plan)
    rotary = model.rotary(rows, positions)
    layout = TokenLayout(m, None)
    if r:
        earlier = torch.ones(r, r, dtype=torch.bool, device=mask.device).tril()
        visible = torch.cat([mask[:, None, :].expand(-1, r, -1), earlier.expand(len(mask), -1, -1)], 2)
        layout = TokenLayout(m, _additive(visible, rows.dtype))
    for i in range(len(model.blocks) - plan.branch_layers):
        rows = model.block(i, rows, rotary, layout)
    return rows, rotary, layout


def _append_probes(
    hidden: Tensor, positions: Tensor, mask: Tensor, probes: Tensor, plan: Plan
) -> tuple[Tensor, Tensor]:
    """[documents; probes]. Probe k sits at max + k on all three axes."""
    if not plan.probes:
        return hidden, positions
    rows = torch.cat([hidden, probes.to(hidden.dtype).expand(len(hidden), -1, -1)], 1)
    last = positions.masked_fill(~mask, -1).amax(dim=(0, 2))  # (B,)
    after = last[:, None] + torch.arange(1, plan.probes + 1, device=last.device)
    return rows, torch.cat([positions, after.expand(3, -1, -1)], 2)


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """A float mask (B, 1, rows, keys). Never a bool one: eager attention would add True as 1.0."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)[
        :, None
    ]


def _repeat(rotary: Rotary, times: int) -> Rotary:
    return rotary[0].repeat(times, 1, 1), rotary[1].repeat(times, 1, 1)
