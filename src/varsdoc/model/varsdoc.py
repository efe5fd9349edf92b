"""VaRS-Doc: one page, K readings.

What is unusual, before you read on:
- The page sequence ends with probes. Blocks 1..L-n are plain causal, so the page never sees them.
- In the last n blocks there are K branches; in branch k every document token also sees probe k, and no other.
- One head per variant and one for queries; with heads="shared" (warm-up, ColQwen2.5) a single one does everything.
- A query runs through the same backbone, causal, with no probe.
- The prompt's text tokens are indexed beside the image cells, as ColQwen2.5 does.
- Batches are left-padded outside; the fast paths work right-padded inside (branches.py says why).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.errors import ConfigError, InputError
from varsdoc.image import ImageLike
from varsdoc.model import encoding, expanding, lora
from varsdoc.model.branches import Plan, encode_inference, encode_reference, encode_training
from varsdoc.model.config import Heads, LoraSettings, VarsConfig
from varsdoc.model.device import DTYPES, choose_device, choose_dtype
from varsdoc.model.embeddings import Encoded, PageEmbedding
from varsdoc.model.fingerprint import Origin, model_hash, state_of
from varsdoc.model.int8 import to_int8
from varsdoc.model.patches import Patches
from varsdoc.model.processor import PageBatch, Processor, QueryBatch
from varsdoc.model.qwen25vl import Qwen25VL, build
from varsdoc.model.saving import SHARD_BYTES, save

if TYPE_CHECKING:
    from varsdoc.model.fast import FastEncoder
    from varsdoc.scoring import Aggregation, Scores

EncodePath = Literal["reference", "inference", "training"]
NORM_EPSILON = 1e-12


class VarsDoc(nn.Module):
    """The encoder: pages to K variants, questions to token vectors.

    Get one with `VarsDoc.from_pretrained`; the constructor makes fresh weights for training.
    """

    def __init__(self, config: VarsConfig, tokenizer: Tokenizer, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.processor = Processor(config, tokenizer)
        self.compute_dtype = "float32"
        self.source = "fresh weights"
        self.base: str | None = None  # where the backbone's weights lie, for adapters that stand on them
        self.origin: Origin | None = None
        self.fast: FastEncoder | None = None
        self._fast_options: dict[str, Any] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.backbone = build(config.backbone)
            self.heads = nn.ModuleList(
                nn.Linear(config.hidden_size, config.dim)
                for _ in range(config.variants if config.heads == "separate" else 1)
            )
            self.query_head = nn.Linear(config.hidden_size, config.dim) if config.heads == "separate" else None
            self.probes = nn.Parameter(torch.empty(config.probes, config.hidden_size))
            self.reset_probes(seed=seed)
        self.eval()

    @property
    def plan(self) -> Plan:
        return Plan(self.config.variants, self.config.branch_layers, self.config.probes_per_variant)

    def forward(
        self, pages: PageBatch | None = None, queries: QueryBatch | None = None, path: EncodePath | None = None
    ) -> tuple[Encoded | None, Encoded | None]:
        """Both sides of a training batch in one call, as distributed wrappers need it."""
        return (
            None if pages is None else self.forward_pages(pages, path),
            None if queries is None else self.forward_queries(queries, path),
        )

    def embed_pages(self, batch: PageBatch) -> Tensor:
        """What enters the language model: prompt and image cells, (B, M, hidden)."""
        return Qwen25VL(self.backbone).embed_pages(batch, self.config.image_mean, self.config.image_std)

    def forward_pages(
        self, batch: PageBatch, path: EncodePath | None = None, embedded: Tensor | None = None
    ) -> Encoded:
        """All variants of a batch of pages. Without a path: "training" where a gradient is wanted, else "inference".

        embedded  `embed_pages` of the same batch, where a loss looks at it too
        """
        states = self.page_states(batch, path or self._default_path(), embedded)
        vectors = torch.stack([_unit(self.head(k)(state)) for k, state in enumerate(states)], dim=1)
        return Encoded(vectors * batch.mask[:, None, :, None], batch.mask)

    def page_states(self, batch: PageBatch, path: EncodePath, embedded: Tensor | None = None) -> Tensor:
        """Document states after the final norm, (K, B, M, hidden), left-padded like the batch."""
        backbone = Qwen25VL(self.backbone)
        hidden = self.embed_pages(batch) if embedded is None else embedded
        if path == "reference":
            if not self.config.probes:
                plain = backbone.plain(hidden, batch.positions, batch.mask)
                return plain.expand(self.config.variants, *plain.shape)
            states = encode_reference(backbone, hidden, batch.positions, batch.mask, self.probes, self.plan)
            return backbone.norm(states)
        encode = encode_inference if _known(path) == "inference" else encode_training
        right = _to_right(batch.mask)
        states = encode(
            backbone,
            _gather(hidden, right),
            batch.positions.gather(2, right.expand(3, -1, -1)),
            batch.mask.gather(1, right),
            self.probes,
            self.plan,
        )
        left = torch.argsort(right, dim=1)
        return _gather(backbone.norm(states), left.expand(len(states), -1, -1))

    def forward_queries(self, batch: QueryBatch, path: EncodePath | None = None) -> Encoded:
        """Questions: the same backbone, causal, no probe."""
        backbone = Qwen25VL(self.backbone)
        hidden = backbone.embed_queries(batch)
        path = _known(path or self._default_path())
        if path == "reference":
            states = backbone.plain(hidden, batch.positions, batch.mask)
        else:
            right = _to_right(batch.mask)
            positions = batch.positions.gather(2, right.expand(3, -1, -1))
            encode = encode_inference if path == "inference" else encode_training
            plain = Plan(1, 0, 1)
            states = encode(
                backbone, _gather(hidden, right), positions, batch.mask.gather(1, right), self.probes, plain
            )[0]
            states = _gather(backbone.norm(states), torch.argsort(right, dim=1))
        head = self.query_head or self.head(0)
        return Encoded(_unit(head(states)) * batch.mask[:, :, None], batch.mask)

    def _default_path(self) -> EncodePath:
        wanted = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        return "training" if wanted else "inference"

    @torch.no_grad()
    def encode_pages(
        self,
        images: Iterable[ImageLike | Patches],
        *,
        batch_tokens: int | None = None,
        progress: bool | None = None,
        workers: int | None = None,
    ) -> list[PageEmbedding]:
        """Encode page images, in their order. Pages of like size share a batch; batching changes nothing in a result.

        images        Pillow images, NumPy arrays, paths, bytes, or pages that `processor.page` cut; any iterable, read
                      a few batches ahead
        batch_tokens  document tokens per forward pass; default by device
        progress      a bar on stderr; default: where stderr is a terminal and there is something to wait for
        workers       threads that read and cut pages while others are encoded; default: some beside a GPU, else none
        """
        return encoding.encode_pages(self, images, batch_tokens, progress, workers)

    @torch.no_grad()
    def encode_queries(
        self, queries: Iterable[str], *, batch_tokens: int | None = None, progress: bool | None = None
    ) -> list[Tensor]:
        """Encode questions, in their order: one (T, dim) tensor each. Texts beyond max_query_tokens are cut."""
        return encoding.encode_queries(self, queries, batch_tokens, progress)

    def prepare(self, *, compile: bool = False, backend: str = "inductor", graphs: bool = True) -> VarsDoc:
        """Encode through the fast path from now on (`model.fast`): the same embeddings, made for a GPU.

        It lays out a second copy of the weights, and makes it anew where they change. Training is not affected.

        compile  compile what stands between attentions with torch.compile: a minute at first, then faster pages
        backend  of torch.compile
        graphs   on CUDA, replay single questions from a CUDA graph
        """
        if self.compute_dtype == "int8":
            raise ConfigError("The fast path computes in float; load the model in another dtype than int8.")
        if lora.has_lora(self.backbone):
            raise ConfigError("The fast path knows no LoRA; fold the adapter in first with merge_lora().")
        from varsdoc.model.fast import FastEncoder

        self._fast_options = {"compiled": compile, "backend": backend, "graphs": graphs}
        with torch.no_grad():
            self.fast = FastEncoder(self, compile, backend, graphs)
        return self

    def prepare_on_gpu(self, *, compile: bool = False) -> VarsDoc:
        """`prepare` where it pays and can be done: on CUDA, where a second copy of the weights fits well."""
        if self.device.type == "cuda" and not lora.has_lora(self.backbone):
            size = sum(parameter.nbytes for parameter in self.parameters())
            if torch.cuda.mem_get_info(self.device)[0] > 3 * size:
                self.prepare(compile=compile)
        return self

    def prepared(self) -> FastEncoder | None:
        """The fast path, if `prepare` was called; made anew if a weight was written to since."""
        if self.fast is not None and self.fast.stale:
            self.fast = None
            self.prepare(
                compile=self._fast_options["compiled"],
                backend=self._fast_options["backend"],
                graphs=self._fast_options["graphs"],
            )
        return self.fast

    def score(
        self, queries: Sequence[Tensor], pages: Sequence[PageEmbedding], aggregation: Aggregation = "max"
    ) -> Scores:
        """Variant-aware MaxSim of every query with every page."""
        from varsdoc.scoring import score_pages

        pages = list(pages)
        if not all(isinstance(page, PageEmbedding) for page in pages):
            raise InputError("score takes the pages that encode_pages made; for bare tensors use varsdoc.score_pages.")
        return score_pages(queries, [page.variants for page in pages], aggregation=aggregation)

    def head(self, variant: int) -> nn.Linear:
        """The projection of one variant; a shared head serves them all."""
        head = self.heads[variant if len(self.heads) > 1 else 0]
        assert isinstance(head, nn.Linear)
        return head

    @property
    def device(self) -> torch.device:
        return self.probes.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of embeddings: the heads', float32 under int8."""
        return self.head(0).weight.dtype

    def to_device(self, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None) -> VarsDoc:
        """Move and convert. int8 is final: quantise last."""
        target = choose_device(device)
        wanted = choose_dtype(dtype, target)
        if self.compute_dtype == "int8" and (wanted != "int8" or target.type != "cpu"):
            raise ConfigError("This model computes in int8 for good; load it again in another dtype.")
        known = self.origin is not None and self.origin.state == state_of(self)
        self.fast = None
        self.to(device=target)
        self.convert(DTYPES.get(wanted, torch.float32))
        if wanted == "int8" and self.compute_dtype != "int8":
            if lora.has_lora(self.backbone):
                lora.merge_lora(self.backbone)
            for part in (self.backbone.language_model.layers, self.backbone.visual.blocks, self.backbone.visual.merger):
                to_int8(part)
        self.compute_dtype = wanted
        if known and self.origin is not None:
            self.origin = replace(self.origin, state=state_of(self))
        return self

    def convert(self, dtype: torch.dtype) -> None:
        """Parameters to a dtype. `self.to(dtype)` would round the rotation tables too, by up to 0.4 % of an angle."""
        self.fast = None
        for parameter in self.parameters():
            parameter.data = parameter.data.to(dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> VarsDoc:
        """Whatever moves or converts the weights: what was made ready of them reads the old ones."""
        self.fast = None
        super()._apply(fn, recurse)
        return self

    def reconfigure(self, config: VarsConfig) -> None:
        """Other settings for the same weights."""
        self.config = self.processor.config = config

    def reset_probes(self, pages: PageBatch | None = None, seed: int = 0) -> None:
        """Start the probes at the mean page-token embedding plus small noise.

        Over the tokens of these pages, image cells included; without pages, over the prompt's text alone, which is
        all that a freshly loaded model has. Training starts with pages.
        """
        expanding.reset_probes(self, pages, seed)

    def expand(
        self,
        variants: int,
        branch_layers: int | None = None,
        heads: Heads = "separate",
        noise: float = 0.0,
        seed: int = 0,
    ) -> VarsDoc:
        """1 -> K, in place: copy the probe and the head, as the paper does between its two stages.

        Variant 1 stays exactly the model it was. `noise` is relative to a tensor's spread and moves the other copies
        only; 0 is the paper. A model without a probe gets fresh ones.
        """
        expanding.expand(self, variants, branch_layers, heads, noise, seed)
        return self

    def set_trainable(self, settings: LoraSettings | None = None, vision: bool = False) -> VarsDoc:
        """What gradients reach: LoRA + probes + heads, or everything (None); the vision tower only on request."""
        self.fast = None
        lora.set_trainable(self, settings, vision)
        return self

    def merge_lora(self) -> VarsDoc:
        """Fold a LoRA adapter into the weights."""
        self.fast = None
        lora.merge_lora(self.backbone)
        return self

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        variants: int | None = None,
        branch_layers: int | None = None,
        heads: Heads | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        max_visual_tokens: int | None = None,
        query_prefix: str | None = None,
        base: str | Path | None = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> VarsDoc:
        """Load a model for use or for training.

        source             None: the packaged checkpoint; a folder; or a hub id, from the cache where it is there
        variants           K. A checkpoint with one variant is expanded to K; any other K must be the checkpoint's
        branch_layers      n. Only where the checkpoint has no probe yet; 4 where variants asks for expansion
        heads              "separate" or "shared" after an expansion
        device, dtype      default: GPU in bfloat16 where there is one, else CPU in float32; dtype="int8" on CPU
        max_visual_tokens  another cap than the checkpoint's; small pages are enlarged to no more than that
        query_prefix       another prefix than the checkpoint's ("Query: " for ColQwen2.5 up to 0.3.12, "" since)
        base               for an adapter: its base, where adapter_config.json names one that is not here
        noise, seed        of an expansion, and of fresh probes and heads
        """
        from varsdoc.model.checkpoint import load

        return load(
            source,
            variants=variants,
            branch_layers=branch_layers,
            heads=heads,
            device=device,
            dtype=dtype,
            max_visual_tokens=max_visual_tokens,
            query_prefix=query_prefix,
            base=base,
            noise=noise,
            seed=seed,
        )

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        dtype: str | torch.dtype | None = None,
        base: str | Path | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Write config, tokenizer and safetensors to a folder; with LoRA, an adapter over its base (`saving.save`)."""
        save(self, folder, dtype=dtype, base=base, shard_bytes=shard_bytes)

    @property
    def checkpoint_hash(self) -> str:
        """16 hex digits over settings and tensors as stored: the same weights have the same hash on every machine."""
        return model_hash(self)


def _known(path: EncodePath) -> EncodePath:
    if path not in ("reference", "inference", "training"):
        raise ConfigError(f"There is no path {path!r}; use reference, inference or training.")
    return path


def _unit(x: Tensor) -> Tensor:
    return F.normalize(x.float(), dim=-1, eps=NORM_EPSILON)


def _to_right(mask: Tensor) -> Tensor:
    """Index (B, M) that moves left padding to the right."""
    width = mask.shape[1]
    shift = width - mask.sum(1, keepdim=True)
    return (torch.arange(width, device=mask.device) + shift) % width


def _gather(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))
