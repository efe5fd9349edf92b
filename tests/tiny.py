"""Models small enough for a test and random enough to notice a mistake.

transformers' own initialisation (std 0.02) leaves attention nearly uniform: a wrong mask would hardly move an output.
Here weights have the spread that keeps activations at size one, so that who sees whom matters.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel

from varsdoc.model import PageBatch, VarsConfig, VarsDoc, nano_config
from varsdoc.model.checkpoint import nano_folder
from varsdoc.model.qwen25vl import Qwen25VL

BLOCKS = 4
PAGE_SIZES = ((140, 224), (280, 140), (84, 84), (140, 224))  # height, width: mixed, one of them twice


def backbone_config(blocks: int = BLOCKS) -> Qwen2_5_VLConfig:
    nano = nano_config().backbone
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": nano.text_config.vocab_size,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": blocks,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
            "bos_token_id": None,
            "eos_token_id": None,
        },
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
        },
        image_token_id=nano.image_token_id,
        video_token_id=nano.video_token_id,
        vision_start_token_id=nano.vision_start_token_id,
        vision_end_token_id=nano.vision_end_token_id,
    )


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(nano_folder() / "tokenizer.json"))


def model(variants: int = 3, branch_layers: int = 2, blocks: int = BLOCKS, seed: int = 0, **settings: Any) -> VarsDoc:
    config = VarsConfig(backbone_config(blocks), variants=variants, branch_layers=branch_layers, dim=16, **settings)
    made = VarsDoc(config, tokenizer())
    randomise(made, seed)
    return made


@torch.no_grad()
def moved(model: VarsDoc, seed: int, size: float = 1.0) -> VarsDoc:
    """Every parameter somewhere else, as after training."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(size * torch.randn(parameter.shape, generator=generator))
    return model


@torch.no_grad()
def randomise(module: torch.nn.Module, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(module.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter.copy_(1 + 0.1 * noise if "norm" in name or "ln_q" in name else 0.1 * noise)
        elif "embed_tokens" in name or name.endswith("probes"):
            parameter.copy_(noise)
        else:
            parameter.copy_(noise / math.sqrt(parameter[0].numel()))


def page(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, height, width]).integers(0, 256, (height, width, 3), dtype=np.uint8)


def batch(model: VarsDoc, sizes: tuple[tuple[int, int], ...] = PAGE_SIZES) -> PageBatch:
    return model.processor.pages([model.processor.page(page(h, w, i)) for i, (h, w) in enumerate(sizes)])


def embed(model: VarsDoc, batch: PageBatch) -> torch.Tensor:
    """Document tokens as they enter the first block."""
    return Qwen25VL(model.backbone).embed_pages(batch, model.config.image_mean, model.config.image_std)


def stock_copy(model: VarsDoc, implementation: str = "sdpa") -> Qwen2_5_VLModel:
    """The same backbone as transformers runs it."""
    stock = Qwen2_5_VLModel._from_config(copy.deepcopy(model.config.backbone), attn_implementation=implementation)
    stock.load_state_dict(model.backbone.state_dict())
    return stock.eval()
