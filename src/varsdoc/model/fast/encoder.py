"""Pages and questions through the fast path: the same embeddings as `VarsDoc.forward_pages` and `forward_queries`.

Its choices:
- Rows are packed (fast.layout): no padding anywhere, attention is one call per run of pages of one length.
- Weights are fused and aligned copies (fast.weights); what lies between attentions can be compiled (fast.pieces).
- Branches as in `branches.encode_inference`: causal attention with its log-sum-exp, the own probe merged in closed
  form, the first branched block shared. Probe rows, too, are full attention over their page merged with the probes
  before them.
- A single question on a GPU replays a CUDA graph, one per length in steps of 8: it is padded at the end, which causal
  attention does not see.
- Nothing waits for the device: lengths come from the host, indices are kept from batch to batch.
- Inference only: it refuses to run where a gradient is wanted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from varsdoc.errors import ConfigError
from varsdoc.model.attention import PatchGroups, causal_with_lse, repeat_heads
from varsdoc.model.fast import pieces
from varsdoc.model.fast.graphs import QueryGraphs
from varsdoc.model.fast.layout import Grids, PageLayout, Run, page_layout, runs_of
from varsdoc.model.fast.weights import language_block, patch_embedding, vision_block

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc

logger = logging.getLogger(__name__)
RECOMPILE_LIMIT = 32
LAYOUTS = 4  # kept: a batch of 32 pages has tens of megabytes of rotations
Turns = tuple[Tensor, Tensor]


class FastEncoder:
    """Made from a model by `VarsDoc.prepare`. Holds copies: a model that changes needs another one."""

    def __init__(self, model: VarsDoc, compiled: bool = False, backend: str = "inductor", graphs: bool = True) -> None:
        text, visual = model.backbone.language_model, model.backbone.visual
        if text.config.hidden_act != "silu" or visual.config.hidden_act != "silu":
            raise ConfigError(f"The fast path knows silu, not {text.config.hidden_act} / {visual.config.hidden_act}.")
        self.model, self.text, self.visual = model, text, visual
        self.plan, self.processor = model.plan, model.processor
        self.parameters = [*model.parameters()]
        self.state = self._state()
        self.epsilon = float(text.config.rms_norm_eps)
        self.heads = int(text.config.num_attention_heads)
        self.scale = float(text.layers[0].self_attn.scaling)
        self.patches = patch_embedding(visual)
        self.vision = [vision_block(block) for block in visual.blocks]
        self.blocks = [language_block(block) for block in text.layers]
        self.page_heads = _stacked([model.head(k) for k in range(model.config.variants)])
        self.query_head = _stacked([model.query_head or model.head(0)])
        device = model.device
        self.mean, self.std = (
            torch.tensor(x, device=device).view(1, 3, 1) for x in (model.config.image_mean, model.config.image_std)
        )
        self.prompt_ids = torch.tensor(self.processor.prompt_ids).to(device)
        self.full = frozenset(visual.config.fullatt_block_indexes)
        self.run = _pieces(compiled, backend)
        if compiled:
            blocks = (weight for block in (*self.vision, *self.blocks) for weight in block)
            pieces.fix([self.patches, *blocks, *self.page_heads, *self.query_head])
        self.layouts: OrderedDict[Grids, PageLayout] = OrderedDict()
        self.graphs = QueryGraphs(self) if graphs and device.type == "cuda" else None

    def _state(self) -> int:
        return sum(parameter._version for parameter in self.parameters)

    @property
    def stale(self) -> bool:
        """Whether a parameter was written to since."""
        return self._state() != self.state

    def layout(self, grids: Grids) -> PageLayout:
        """Kept for the next batch of the same sizes."""
        found = self.layouts.pop(grids, None)
        if found is None:
            found = page_layout(grids, self.processor, self.visual.config, self.plan.probes, self.model.device)
        self.layouts[grids] = found
        while len(self.layouts) > LAYOUTS:
            self.layouts.popitem(last=False)
        return found

    def pages(self, pixels: Tensor, grids: Grids) -> Tensor:
        """uint8 patches of pages, on the device -> unit vectors (K, all document tokens, dim) float32."""
        self._refuse_gradients()
        layout = self.layout(grids)
        hidden = self._embed(pixels, layout)
        turns = self._turns(hidden, layout.positions)
        first = len(self.blocks) - self.plan.branch_layers
        rows = self._with_probes(hidden, layout)
        for i in range(first):
            rows = self._shared_block(i, rows, turns, layout)
        if self.plan.branch_layers:
            documents = self._branches(first, rows, turns, layout)
        else:
            documents = rows.expand(self.plan.variants, -1, -1)
        return self.run.project(documents, self.text.norm.weight, *self.page_heads, self.epsilon)

    def queries(self, ids: Sequence[Sequence[int]]) -> list[Tensor]:
        """Questions as token ids -> unit vectors (T, dim) of each, float32, on the device."""
        self._refuse_gradients()
        if len(ids) == 1 and (found := self._replayed(ids[0])) is not None:
            return [found]
        flat = torch.tensor([one for row in ids for one in row]).to(self.model.device)
        places = torch.cat([torch.arange(len(row)) for row in ids]).to(self.model.device)
        lengths = [len(row) for row in ids]
        return list(self.query_rows(flat, places, runs_of(lengths)).split(lengths))

    def _replayed(self, ids: Sequence[int]) -> Tensor | None:
        """A question through a CUDA graph, where that can be."""
        graphs = self.graphs
        try:
            return None if graphs is None else graphs.encode(ids)
        except RuntimeError as error:
            logger.warning("questions are launched kernel by kernel: a CUDA graph failed (%s)", error)
            self.graphs = None
            return None

    def query_rows(self, ids: Tensor, places: Tensor, runs: tuple[Run, ...]) -> Tensor:
        """Packed questions: (tokens,) ids and positions -> (tokens, dim)."""
        rows = self.text.embed_tokens(ids)
        turns = self._turns(rows, places.expand(3, -1))
        for w in self.blocks:
            q, k, v = self.run.language_in(rows, w, *turns, self.epsilon)
            rows = self.run.language_out(rows, self._causal(q, k, v, runs), w, self.epsilon)
        return self.run.project(rows[None], self.text.norm.weight, *self.query_head, self.epsilon)[0]

    def _refuse_gradients(self) -> None:
        if torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters):
            raise RuntimeError(
                'The fast path has no gradient; use forward_pages(batch, "training") or run under torch.no_grad().'
            )

    def _turns(self, like: Tensor, positions: Tensor) -> Turns:
        cos, sin = self.text.rotary_emb(like, positions[:, None])  # (1, rows, d)
        return cos[0, :, None], sin[0, :, None]

    def _embed(self, pixels: Tensor, layout: PageLayout) -> Tensor:
        """Document tokens: prompt text and image cells, (tokens, hidden)."""
        unit = self.visual.config.spatial_merge_size**2
        pixels = pixels.view(len(layout.patches), unit, -1)[layout.patches].flatten(0, 1)
        rows = self.run.embed_patches(pixels, self.patches, self.mean, self.std)
        for i, w in enumerate(self.vision):
            q, k, v = self.run.vision_in(rows, w, *layout.turns)
            attended = self._patch_attention(q, k, v, layout, i in self.full)
            rows = self.run.vision_out(rows, attended, w)
        cells = self.visual.merger(rows)
        prompt = self.text.embed_tokens(self.prompt_ids)
        return torch.cat([cells.to(prompt.dtype), prompt])[layout.rows]

    def _patch_attention(self, q: Tensor, k: Tensor, v: Tensor, layout: PageLayout, full: bool) -> Tensor:
        groups: PatchGroups = layout.pages if full else layout.windows
        parts = []
        for start, count, length, index in groups.groups:
            rows = slice(start, start + count * length)
            q_, k_, v_ = ((x[rows] if index is None else x[index]).unflatten(0, (count, length)) for x in (q, k, v))
            out = F.scaled_dot_product_attention(q_.transpose(1, 2), k_.transpose(1, 2), v_.transpose(1, 2))
            parts.append(out.transpose(1, 2).reshape(count * length, -1))
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return whole[layout.pages_back] if full and layout.pages_back is not None else whole

    def _with_probes(self, hidden: Tensor, layout: PageLayout) -> Tensor:
        """[documents of all pages; probes of all pages]"""
        if not self.plan.probes:
            return hidden
        return torch.cat([hidden, self.model.probes.to(hidden.dtype).repeat(len(layout.lengths), 1)])

    def _causal(self, q: Tensor, k: Tensor, v: Tensor, runs: tuple[Run, ...]) -> Tensor:
        """Plain causal attention of packed rows: (rows, heads * d)."""
        parts = []
        for run in runs:
            q_, k_, v_ = (_of(x, run) for x in (q, k, v))
            k_, v_ = repeat_heads(k_, self.heads), repeat_heads(v_, self.heads)
            parts.append(_flat(F.scaled_dot_product_attention(q_, k_, v_, is_causal=True, scale=self.scale)))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shared_block(self, i: int, rows: Tensor, turns: Turns, layout: PageLayout) -> Tensor:
        """The page never sees a probe; probe k sees the page and the probes up to itself."""
        w = self.blocks[i]
        q, k, v = self.run.language_in(rows, w, *turns, self.epsilon)
        attended = self._causal(q, k, v, layout.runs)
        if self.plan.probes:
            attended = torch.cat([attended, self._probes(q, k, v, layout)])
        return self.run.language_out(rows, attended, w, self.epsilon)

    def _probes(self, q: Tensor, k: Tensor, v: Tensor, layout: PageLayout) -> Tensor:
        """Attention of the probe rows: (pages * probes, heads * d)."""
        r, parts = self.plan.probes, []
        later = torch.ones(r, r, dtype=torch.bool, device=q.device).triu(1)
        for run in layout.runs:
            mine = Run(layout.tokens + run.page * r, run.count, r, 0)
            k_, v_ = (repeat_heads(_of(x, run), self.heads) for x in (k, v))
            own_q, own_k, own_v = (repeat_heads(_of(x, mine), self.heads) for x in (q, k, v))
            out, lse = causal_with_lse(own_q, k_, v_, self.scale, causal=False)
            logits = (own_q.float() @ own_k.float().mT * self.scale).masked_fill(later, float("-inf"))
            total = torch.logaddexp(lse, logits.logsumexp(-1))
            added = torch.exp(logits - total[..., None]) @ own_v.float()
            parts.append(_flat((torch.exp(lse - total)[..., None] * out.float() + added).to(q.dtype)))
        return torch.cat(parts)

    def _branches(self, first: int, rows: Tensor, turns: Turns, layout: PageLayout) -> Tensor:
        """Blocks L-n+1..L in K branches: document rows (K, tokens, hidden)."""
        k, m, last = self.plan.variants, layout.tokens, len(self.blocks) - 1
        # All branches enter the first branched block with the same rows.
        w = self.blocks[first]
        q, keys, v = self.run.language_in(rows, w, *turns, self.epsilon)
        attended = self._merged(q, keys, v, layout, range(k))
        documents = self.run.language_out(rows[:m].repeat(k, 1), attended.flatten(0, 1), w, self.epsilon)
        documents = documents.unflatten(0, (k, m))
        if first == last:
            return documents
        probes = self.run.language_out(rows[m:], self._probes(q, keys, v, layout), w, self.epsilon)
        branched = torch.cat([documents, probes.expand(k, -1, -1)], 1)  # (K, tokens + probes, hidden)
        for i in range(first + 1, last + 1):
            branched = self._branched_block(i, branched, turns, layout, i == last)
        return branched

    def _branched_block(self, i: int, rows: Tensor, turns: Turns, layout: PageLayout, is_last: bool) -> Tensor:
        """In the last block probes are keys only."""
        w, m = self.blocks[i], layout.tokens
        q, k, v = self.run.language_in(rows, w, *turns, self.epsilon)
        branches = range(self.plan.variants)
        attended = torch.cat([self._merged(q[b], k[b], v[b], layout, range(b, b + 1)) for b in branches])
        if is_last:
            return self.run.language_out(rows[:, :m], attended, w, self.epsilon)
        probes = torch.stack([self._probes(q[b], k[b], v[b], layout) for b in branches])
        return self.run.language_out(rows, torch.cat([attended, probes], 1), w, self.epsilon)

    def _merged(self, q: Tensor, k: Tensor, v: Tensor, layout: PageLayout, branches: range) -> Tensor:
        """Document rows of these branches, which have q, k and v in common: (branches, tokens, heads * d)."""
        r, p = self.plan.probes, self.plan.probes_per_variant
        parts = []
        for run in layout.runs:
            mine = Run(layout.tokens + run.page * r, run.count, r, 0)
            q_, k_, v_ = (repeat_heads(_of(x, run), self.heads) for x in (q, k, v))
            out, lse = causal_with_lse(q_, k_, v_, self.scale)
            own_k, own_v = (repeat_heads(_of(x, mine), self.heads) for x in (k, v))
            each = [slice(b * p, (b + 1) * p) for b in branches]
            merged = [self.run.merge_own(out, lse, q_, own_k[:, :, s], own_v[:, :, s], self.scale) for s in each]
            parts.append(torch.stack([_flat(x) for x in merged]))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def allow_recompiling(times: int) -> None:
    """At least so often, for one piece of code."""
    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # torch 2.6
    setattr(config, name, max(times, getattr(config, name)))


@lru_cache(maxsize=4)
def _pieces(compiled: bool, backend: str) -> _Pieces:
    """One set for all models of a process: what was compiled for one serves the next."""
    return _Pieces(compiled, backend)


class _Pieces:
    """The functions of `fast.pieces`, compiled or as they are."""

    def __init__(self, compiled: bool, backend: str) -> None:
        if compiled:  # rows packed and by branch, one branch and several, first size and open size: more than eight
            allow_recompiling(RECOMPILE_LIMIT)

        def made(function: Callable[..., Any], **fixed: tuple[int, ...]) -> Any:
            names = [*signature(function).parameters]
            places = {names.index(name): dims for name, dims in fixed.items()}
            return pieces.Compiled(function, backend, places) if compiled else function

        last, heads_too = (-1,), (1, 3)
        self.embed_patches = made(pieces.embed_patches, pixels=last)
        self.vision_in = made(pieces.vision_in, x=last, cos=last, sin=last)
        self.vision_out = made(pieces.vision_out, x=last, attended=last)
        self.language_in = made(pieces.language_in, x=last, cos=last, sin=last)
        self.language_out = made(pieces.language_out, x=last, attended=last)
        self.merge_own = made(pieces.merge_own, out=heads_too, q=heads_too, own_k=heads_too, own_v=heads_too)
        self.project = made(pieces.project, x=last)


def _of(x: Tensor, run: Run) -> Tensor:
    """Rows of a run: (count, heads, length, d)."""
    return x[run.start : run.start + run.count * run.length].unflatten(0, (run.count, run.length)).transpose(1, 2)


def _flat(x: Tensor) -> Tensor:
    """(count, heads, length, d) -> (count * length, heads * d)"""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def _stacked(heads: Sequence[Any]) -> tuple[Tensor, Tensor]:
    return torch.stack([head.weight.detach() for head in heads]), torch.stack([head.bias.detach() for head in heads])
