"""Attention of pages with probes, without a dense mask.

Two observations carry this file:
- Rows are right-padded here (documents first, padding, then probes), so document rows are plain causal attention: no
  mask, any fused kernel, padding never seen because it comes later.
- In branch k a document token sees exactly its own probes in addition. Keys have their rotation already, so their
  order is free: either merge the extra keys into the causal result through its log-sum-exp (`merge_keys`, inference:
  the causal part is shared by all branches), or put them in front of the sequence and stay causal (`lead_keys`:
  differentiable with stock kernels, because no log-sum-exp is needed).

The log-sum-exp of torch's fused kernels carries no gradient, so `merge_keys` refuses tensors that need one.

`attend` is registered with transformers as an attention implementation. Stock blocks then run unchanged (with their
gradient checkpointing, LoRA and FSDP hooks) and call it; without a layout it is transformers' own sdpa.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from varsdoc.model.onednn import full_attention

IMPLEMENTATION = "varsdoc"


@dataclass(frozen=True)
class TokenLayout:
    """Where the rows of a right-padded batch are: `documents` rows, then `probes` rows."""

    documents: int  # M, padding included
    probe_mask: Tensor | None  # (B, 1, R, M + R) float: what each probe row sees; None without probes
    own: Tensor | None = None  # (rows of the batch, P) which probes the documents of that row see; None: no branch


@dataclass(frozen=True)
class PatchGroups:
    """Runs of patches that attend to each other. Runs of one length go through one call.

    Each group is (start, count, length, index): `count` runs of `length` patches, contiguous from `start` where index
    is None, otherwise gathered by index (count * length,).
    """

    groups: tuple[tuple[int, int, int, Tensor | None], ...]


def attend(
    module: torch.nn.Module,
    query: Tensor,  # (B, heads, S, d)
    key: Tensor,  # (B, kv heads, S, d)
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    layout: TokenLayout | PatchGroups | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    if isinstance(layout, PatchGroups):
        out = _attend_patches(query, key, value, layout, scaling)
    else:
        key, value = repeat_heads(key, query.shape[1]), repeat_heads(value, query.shape[1])
        out = _attend_tokens(query, key, value, layout, scaling)
    return out.transpose(1, 2), None  # (B, S, heads, d)


AttentionInterface.register(IMPLEMENTATION, attend)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Grouped keys or values, once per query head."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _attend_tokens(q: Tensor, k: Tensor, v: Tensor, layout: TokenLayout, scale: float | None) -> Tensor:
    m = layout.documents
    if layout.own is None:
        documents = F.scaled_dot_product_attention(q[:, :, :m], k[:, :, :m], v[:, :, :m], is_causal=True, scale=scale)
    else:
        documents = lead_keys(
            q[:, :, :m], k[:, :, :m], v[:, :, :m], pick(k[:, :, m:], layout.own), pick(v[:, :, m:], layout.own), scale
        )
    if layout.probe_mask is None:
        return documents
    return torch.cat([documents, attend_probes(q[:, :, m:], k, v, layout.probe_mask, scale)], dim=2)


def attend_probes(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None) -> Tensor:
    """The few probe rows see the page and the probes up to themselves: a small dense mask."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), scale=scale)


def pick(x: Tensor, own: Tensor) -> Tensor:
    """Of the probe rows (B, heads, R, d) those that each row of the batch sees: (B, heads, P, d)."""
    index = own[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, index)


def lead_keys(q: Tensor, k: Tensor, v: Tensor, extra_k: Tensor, extra_v: Tensor, scale: float | None) -> Tensor:
    """Causal attention in which every row also sees the extra keys: they lead the sequence, beside dummy queries."""
    p = extra_k.shape[2]
    lead_q = q.new_zeros(*q.shape[:2], p, q.shape[3])
    out = F.scaled_dot_product_attention(
        torch.cat([lead_q, q], 2), torch.cat([extra_k, k], 2), torch.cat([extra_v, v], 2), is_causal=True, scale=scale
    )
    return out[:, :, p:]


def causal_with_lse(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool = True) -> tuple[Tensor, Tensor]:
    """Attention, causal or full, and the log-sum-exp of each row's logits, (B, heads, S) float32. Inference only."""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise RuntimeError(
            "The fused log-sum-exp has no gradient, so this path would train wrongly without an error; "
            'use path="training" or run under torch.no_grad().'
        )
    if torch.is_autocast_enabled(q.device.type):  # which knows torch's attention, not the operators below
        q, k, v = (x.to(torch.get_autocast_dtype(q.device.type)) for x in (q, k, v))
    aten = torch.ops.aten
    if q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)[:2]
    elif q.device.type == "cuda" and q.dtype != torch.float32 and _has_flash(q):
        out, lse = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)[:2]
    elif q.device.type == "cuda":
        out, lse = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)[:2]
    else:
        out, lse = causal_with_lse_reference(q, k, v, scale, causal)
    return out, lse[..., : q.shape[2]].float()


def _has_flash(q: Tensor) -> bool:
    """The flash kernel wants an Ampere or newer GPU and a head width that is a multiple of 8."""
    return torch.cuda.get_device_capability(q.device)[0] >= 8 and q.shape[-1] % 8 == 0


def causal_with_lse_reference(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool = True
) -> tuple[Tensor, Tensor]:
    """What `causal_with_lse` computes, written out; also where no fused kernel is known."""
    logits = q.float() @ k.float().transpose(2, 3) * scale
    if causal:
        future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
        logits = logits.masked_fill(future, torch.finfo(torch.float32).min)
    return (logits.softmax(-1) @ v.float()).to(q.dtype), logits.logsumexp(-1)


def merge_keys(out: Tensor, lse: Tensor, logits: Tensor, extra_v: Tensor) -> Tensor:
    """Attention over the keys behind (out, lse) and a few more, in closed form and float32.

    out (..., S, d), lse (..., S), logits (..., S, P) of the extra keys, extra_v (..., P, d).

    One key with logit 0 and value 1, merged with one of logit 0 and value 3, gives their mean:

    >>> merge_keys(torch.ones(1, 1), torch.zeros(1), torch.zeros(1, 1), torch.full((1, 1), 3.0))
    tensor([[2.]])
    """
    logits = logits.float()
    total = torch.logaddexp(lse, logits.logsumexp(-1))
    kept = torch.exp(lse - total)[..., None] * out.float()
    added = torch.exp(logits - total[..., None]) @ extra_v.float()
    return (kept + added).to(out.dtype)


def _attend_patches(q: Tensor, k: Tensor, v: Tensor, layout: PatchGroups, scale: float | None) -> Tensor:
    """q, k, v (1, heads, N, d): full attention inside each run."""
    heads, n, d = q.shape[1:]
    if layout.groups == ((0, 1, n, None),):
        return full_attention(q, k, v, scale)
    out = torch.empty_like(q) if not q.requires_grad else None
    pieces, where = [], []
    for start, count, length, index in layout.groups:
        rows = slice(start, start + count * length) if index is None else index
        parts = [x[0][:, rows].reshape(heads, count, length, d).transpose(0, 1) for x in (q, k, v)]
        piece = full_attention(parts[0], parts[1], parts[2], scale).transpose(0, 1).reshape(heads, count * length, d)
        if out is not None:
            out[0][:, rows] = piece
        else:
            pieces.append(piece)
            where.append(torch.arange(n, device=q.device)[rows])
    if out is not None:
        return out
    back = torch.argsort(torch.cat(where))
    return torch.cat(pieces, dim=1)[:, back][None]
