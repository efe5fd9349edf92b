"""How much GPU memory a step needs, added up from shapes. An estimate with its basis, not a measurement.

Counted: weights (frozen ones in bf16), gradients and Adam's two moments of what is trained (float32), what the blocks
keep for the backward pass, the largest block while it is recomputed, embeddings of all ranks with their gradients and
the scoring's chunk. Not counted: the allocator's slack and CUDA itself; allow 10 % and 1 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from varsdoc.model import VarsDoc
from varsdoc.training.config import TrainConfig
from varsdoc.training.scoring import CHUNK_BYTES

GB = 1024**3
# Tensors of one block that its backward pass needs, per token: hidden-sized (norms, q, attention output, residuals)
# and feed-forward-sized (gate, up, their activation and product; LoRA keeps a dropped-out input beside).
HIDDEN_KEPT, FEED_FORWARD_KEPT = 10, 4


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: int
    optimiser: int  # gradients and moments
    activations: int
    block: int  # the block that is being recomputed
    embeddings: int
    vision: int

    @property
    def total(self) -> int:
        return self.weights + self.optimiser + self.activations + self.block + self.embeddings + self.vision

    def lines(self) -> list[str]:
        parts = {
            "weights": self.weights,
            "gradients and Adam": self.optimiser,
            "kept for backward": self.activations,
            "one block": self.block,
            "vision": self.vision,
            "embeddings and scoring": self.embeddings,
        }
        listed = ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items())
        return [
            f"memory      about {self.total / GB:.1f} GB a GPU: {listed}",
            "            added up from shapes, not measured; allow 10 % and 1 GB for the allocator and CUDA",
        ]


def estimate(model: VarsDoc, config: TrainConfig, page_tokens: int, query_tokens: int, ranks: int) -> Memory:
    """From a model (the meta device will do) and a config."""
    optim, settings = config.optim, model.config
    small = 2 if optim.bf16 else 4
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in model.parameters()) - trained
    at_once = optim.micro_batch or optim.batch
    text = settings.backbone.text_config
    tokens = at_once * (page_tokens + settings.probes)
    branched = tokens * settings.variants
    inputs = tokens * (settings.blocks - settings.branch_layers) + branched * settings.branch_layers
    inputs += at_once * query_tokens * settings.blocks
    wide = HIDDEN_KEPT * settings.hidden_size + FEED_FORWARD_KEPT * text.intermediate_size
    largest = branched if settings.branch_layers else tokens
    if optim.gradient_checkpointing:
        activations, block = inputs * settings.hidden_size * small, largest * wide * small
    else:
        activations, block = inputs * wide * small, 0
    vectors = optim.batch * settings.variants * page_tokens * settings.dim * 4
    return Memory(
        weights=frozen * small + trained * 4,
        optimiser=trained * 4 * 3,
        activations=activations,
        block=block,
        embeddings=vectors * (2 + 2 * ranks) + CHUNK_BYTES,
        vision=_vision(model, config, at_once * settings.max_visual_tokens, small),
    )


def _vision(model: VarsDoc, config: TrainConfig, cells: int, small: int) -> int:
    """Four patches a cell. A frozen tower needs one block's tensors; a trained one keeps every block's input too."""
    vision = model.config.backbone.vision_config
    patches = cells * model.config.merge_size**2
    block = patches * (8 * vision.hidden_size + 3 * vision.intermediate_size) * small
    if not config.model.vision:
        return block
    kept = patches * vision.hidden_size * small * vision.depth
    return block + kept if config.optim.gradient_checkpointing else block * vision.depth
