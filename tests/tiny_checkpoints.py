"""Checkpoints of other retrievers, small and random, in the layout that their releases have on disk."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    ColPaliConfig,
    ColPaliForRetrieval,
    ColQwen2Config,
    ColQwen2ForRetrieval,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLModel,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
)

import tiny

_TEXT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}


def tokenizer(**special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tiny.tokenizer(), **special)


def ending_tokenizer() -> PreTrainedTokenizerFast:
    """One that ends every text with its end token, as CLIP's and SigLIP's do: CLIP's vector is read there."""
    made = tiny.tokenizer()
    end = "<|im_end|>"
    made.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, made.token_to_id(end))])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<|endoftext|>", eos_token=end)


def _qwen_tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer(pad_token="<|endoftext|>", eos_token="<|im_end|>")


@torch.no_grad()
def randomise(model: torch.nn.Module) -> None:
    """Weights of unit spread, as tiny.randomise; single numbers (a logit's scale) and norms stay."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.ndim > 1:
            spread = 1.0 if "embed" in name and "patch" not in name else math.sqrt(parameter[0].numel())
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / spread)


def _save(folder: Path, model: Any, *parts: Any) -> Path:
    randomise(model)
    model.save_pretrained(folder)
    for part in parts:
        part.save_pretrained(folder)
    return folder


def clip(folder: Path) -> Path:
    tokens = ending_tokenizer()
    ids = {"pad_token_id": tokens.pad_token_id, "eos_token_id": tokens.eos_token_id}
    text = _TEXT | {"vocab_size": len(tokens), "max_position_embeddings": 24} | ids
    vision = _TEXT | {"image_size": 56, "patch_size": 14}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    images = CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    return _save(folder, model, tokens, images)


def siglip(folder: Path) -> Path:
    tokens = ending_tokenizer()
    text = _TEXT | {"vocab_size": len(tokens), "max_position_embeddings": 24, "projection_size": 32}
    vision = _TEXT | {"image_size": 56, "patch_size": 14}
    model = SiglipModel(SiglipConfig(text_config=text, vision_config=vision))
    return _save(folder, model, tokens, SiglipImageProcessorPil(size={"height": 56, "width": 56}))


def colpali(folder: Path) -> Path:
    tokens = tokenizer(pad_token="<|endoftext|>", eos_token="<|endoftext|>", bos_token="<|im_start|>")
    tokens.add_special_tokens({"additional_special_tokens": ["<image>"]})
    image_id = tokens.convert_tokens_to_ids("<image>")
    vlm = AutoConfig.for_model(
        "paligemma",
        text_config=_TEXT
        | {"model_type": "gemma", "vocab_size": len(tokens) + 1300, "num_key_value_heads": 1, "head_dim": 16},
        vision_config=_TEXT | {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14},
        image_token_index=image_id,
        projection_dim=32,
    )
    model = ColPaliForRetrieval(ColPaliConfig(vlm_config=vlm, embedding_dim=16))
    images = SiglipImageProcessorPil(size={"height": 56, "width": 56}, image_seq_length=16)
    return _save(folder, model, tokens, images)


def colqwen2(folder: Path) -> Path:
    tokens = _qwen_tokenizer()
    nano = tiny.backbone_config()
    vlm = AutoConfig.for_model(
        "qwen2_vl",
        text_config={
            "vocab_size": nano.text_config.vocab_size,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2},
        image_token_id=nano.image_token_id,
        video_token_id=nano.video_token_id,
        vision_start_token_id=nano.vision_start_token_id,
        vision_end_token_id=nano.vision_end_token_id,
    )
    model = ColQwen2ForRetrieval(ColQwen2Config(vlm_config=vlm, embedding_dim=16))
    return _save(folder, model, tokens, _qwen_images())


def _qwen_images(**settings: Any) -> Qwen2VLImageProcessorPil:
    return Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": 30 * 28 * 28}, **settings)


def colqwen25(folder: Path) -> Path:
    """A merged ColQwen2.5 release: backbone, custom_text_proj, tokenizer."""
    from safetensors.torch import save_file

    stock = tiny.stock_copy(tiny.model(variants=1, branch_layers=0))
    generator = torch.Generator().manual_seed(3)
    state = {name: tensor.clone() for name, tensor in stock.state_dict().items()}
    state["custom_text_proj.weight"] = torch.randn(128, 64, generator=generator) / 8
    state["custom_text_proj.bias"] = torch.randn(128, generator=generator) / 8
    folder.mkdir(parents=True)
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(tiny.backbone_config().to_json_string())
    tiny.tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def colnomic(folder: Path, base: Path) -> Path:
    """ColNomic's layout: a PEFT adapter over a ColQwen2.5 base, LoRA on the language blocks and the head."""
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(4)
    adapter = {}
    for name, tensor in load_file(base / "model.safetensors").items():
        if tensor.ndim == 2 and ("_proj.weight" in name or "custom" in name) and "visual" not in name:
            key = "base_model.model." + name.removesuffix(".weight")
            adapter[f"{key}.lora_A.weight"] = torch.randn(4, tensor.shape[1], generator=generator) / 8
            adapter[f"{key}.lora_B.weight"] = torch.randn(tensor.shape[0], 4, generator=generator) / 8
    folder.mkdir(parents=True)
    save_file(adapter, folder / "adapter_model.safetensors")
    settings = {
        "base_model_name_or_path": str(base),
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "lora_dropout": 0.0,
        "target_modules": "(.*(model)(?!.*visual).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj).*$"
        "|.*(custom_text_proj).*$)",
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    tiny.tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def qwen3(folder: Path, head: bool) -> Path:
    """A ColQwen3 (with a head, model_type colqwen3) or the bare Qwen3-VL of eager-embed."""
    from safetensors.torch import load_file, save_file

    nano = tiny.backbone_config()
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": nano.text_config.vocab_size,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=nano.image_token_id,
        video_token_id=nano.video_token_id,
        vision_start_token_id=nano.vision_start_token_id,
        vision_end_token_id=nano.vision_end_token_id,
    )
    images = _qwen_images(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    _save(folder, Qwen3VLModel(config), _qwen_tokenizer(), images)
    if head:
        weights = folder / "model.safetensors"
        state = {f"model.{name}": tensor for name, tensor in load_file(weights).items()}
        generator = torch.Generator().manual_seed(5)
        state["custom_text_proj.weight"] = torch.randn(16, 64, generator=generator)
        state["custom_text_proj.bias"] = torch.randn(16, generator=generator)
        save_file(state, weights)
        settings = folder / "config.json"
        settings.write_text(settings.read_text().replace('"model_type": "qwen3_vl",', '"model_type": "colqwen3",'))
    return folder
