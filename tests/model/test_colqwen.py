"""Checkpoints of others, written by the test in their layouts, give the embeddings of a plain transformers forward."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2_5_VLModel

import tiny
from varsdoc.errors import CheckpointError
from varsdoc.model import LoraSettings, UntrainedWarning, VarsDoc
from varsdoc.model.patches import pixel_values

# How the releases spell their tensors: colpali-engine on transformers 4.49 and before, 4.52 and after, the HF port.
LAYOUTS = {
    "old": [(r"^language_model\.", "model."), (r"^visual\.", "visual.")],
    "new": [],
    "wrapped": [(r"^(language_model|visual)\.", r"model.\1.")],
    "ported": [(r"^(language_model|visual)\.", r"vlm.model.\1."), (r"^custom_text_proj\.", "embedding_proj_layer.")],
}
# As in vidore/colqwen2.5-v0.2.
TARGETS = (
    r"(.*(model)(?!.*visual).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj).*$|.*(custom_text_proj).*$)"
)


class Stock(torch.nn.Module):
    """ColQwen2.5 as transformers runs it: backbone, head, unit length."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        backbone = Qwen2_5_VLModel._from_config(tiny.backbone_config(), attn_implementation="sdpa")
        self.language_model, self.visual = backbone.language_model, backbone.visual
        self.custom_text_proj = torch.nn.Linear(64, dim)
        tiny.randomise(self, seed=3)
        self.model = [backbone.eval()]  # in a list, so that it is not registered twice

    @torch.no_grad()
    def page(self, ours: VarsDoc, image: np.ndarray) -> torch.Tensor:
        cut = ours.processor.page(image)
        batch = ours.processor.pages([cut])
        kinds = (batch.input_ids == ours.config.backbone.image_token_id).int()
        hidden = self.model[0](
            input_ids=batch.input_ids,
            attention_mask=batch.mask.long(),
            pixel_values=torch.from_numpy(pixel_values(cut, ours.config)),
            image_grid_thw=torch.tensor([[1, cut.rows, cut.cols]]),
            mm_token_type_ids=kinds,
        ).last_hidden_state
        return torch.nn.functional.normalize(self.custom_text_proj(hidden[0]), dim=-1)

    @torch.no_grad()
    def query(self, text: str) -> torch.Tensor:
        ids = tiny.tokenizer().encode("Query: " + text + "<|endoftext|>" * 10, add_special_tokens=False).ids
        hidden = self.model[0](input_ids=torch.tensor([ids])).last_hidden_state[0]
        return torch.nn.functional.normalize(self.custom_text_proj(hidden), dim=-1)


def write(folder: Path, tensors: dict[str, torch.Tensor], layout: str = "new", **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    renamed = {}
    for name, tensor in tensors.items():
        for pattern, replacement in LAYOUTS[layout]:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor.clone()
    save_file(renamed, folder / "model.safetensors")
    content = json.loads(tiny.backbone_config().to_json_string()) | config
    (folder / "config.json").write_text(json.dumps({"vlm_config": content} if layout == "ported" else content))
    tiny.tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def same(ours: VarsDoc, stock: Stock) -> None:
    for image in (tiny.page(140, 224), tiny.page(84, 84)):
        torch.testing.assert_close(
            ours.encode_pages([image])[0].variants[0], stock.page(ours, image), atol=1e-5, rtol=0
        )
    for text in ("hello", "What was the operating income in 2019?"):
        torch.testing.assert_close(ours.encode_queries([text])[0], stock.query(text), atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_merged_release_is_plain_colqwen(layout: str, tmp_path: Path) -> None:
    stock = Stock()
    extra = {"lm_head.weight": torch.zeros(2, 64)} if layout in ("old", "wrapped") else {}
    folder = write(tmp_path / "release", stock.state_dict() | extra, layout)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = VarsDoc.from_pretrained(folder, device="cpu")
    assert (ours.config.variants, ours.config.branch_layers, ours.config.heads) == (1, 0, "shared")
    same(ours, stock)


def test_sharded_and_half_precision_releases_load(tmp_path: Path) -> None:
    stock = Stock()
    folder = write(tmp_path / "release", stock.state_dict())
    state = load_file(folder / "model.safetensors")
    names = sorted(state)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: state[name].bfloat16() for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in halves.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    ours = VarsDoc.from_pretrained(folder, device="cpu")
    assert ours.dtype == torch.float32
    assert torch.equal(ours.head(0).weight, stock.custom_text_proj.weight.bfloat16().float())


def write_adapter(
    folder: Path, stock: Stock, base: Path, layout: str = "new", **settings: Any
) -> dict[str, torch.Tensor]:
    """LoRA on the language blocks and the head with the key names of the releases; `stock` gets the sum, by hand."""
    generator = torch.Generator().manual_seed(0)
    adapter: dict[str, torch.Tensor] = {}
    alphas = settings.get("alpha_pattern", {})
    with torch.no_grad():
        for name, module in stock.named_modules():
            if not isinstance(module, torch.nn.Linear) or "visual" in name:
                continue
            a = torch.randn(4, module.in_features, generator=generator) / 8
            b = torch.randn(module.out_features, 4, generator=generator) / 8
            outer = re.sub(r"^language_model\.", "model.", name) if layout == "old" else name
            module.weight += alphas.get(outer, 8) / 4 * b @ a  # lora_alpha / r
            adapter[f"base_model.model.{outer}.lora_A.weight"] = a
            adapter[f"base_model.model.{outer}.lora_B.weight"] = b
    folder.mkdir()
    save_file(adapter, folder / "adapter_model.safetensors")
    content = {
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "lora_dropout": 0.1,
        "target_modules": TARGETS,
        "base_model_name_or_path": str(base),
        "bias": "none",
        "init_lora_weights": "gaussian",
        "task_type": "FEATURE_EXTRACTION",
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(content | settings))
    return adapter


def test_patterns_by_layer_name_are_followed_in_the_old_spelling(tmp_path: Path) -> None:
    stock = Stock()
    base = write(tmp_path / "base", stock.state_dict(), "old")
    write_adapter(tmp_path / "release", stock, base, "old", alpha_pattern={"model.layers.0.self_attn.q_proj": 40})
    same(VarsDoc.from_pretrained(tmp_path / "release", device="cpu"), stock)


def test_an_adapter_over_a_half_precision_base_is_folded_in_float32(tmp_path: Path) -> None:
    stock = Stock()
    with torch.no_grad():
        for parameter in stock.parameters():
            parameter.copy_(parameter.bfloat16().float())
    base = write(tmp_path / "base", {name: tensor.bfloat16() for name, tensor in stock.state_dict().items()})
    write_adapter(tmp_path / "release", stock, base)
    same(VarsDoc.from_pretrained(tmp_path / "release", device="cpu"), stock)


def test_a_head_that_the_adapter_stored_whole_is_taken(tmp_path: Path) -> None:
    """PEFT's modules_to_save over a base that has no head."""
    stock = Stock()
    base = write(tmp_path / "base", {n: t for n, t in stock.state_dict().items() if "custom" not in n})
    adapter = write_adapter(tmp_path / "release", stock, base)
    kept = {name: tensor for name, tensor in adapter.items() if "custom" not in name}
    kept["base_model.model.custom_text_proj.weight"] = stock.custom_text_proj.weight.detach()
    kept["base_model.model.custom_text_proj.bias"] = stock.custom_text_proj.bias.detach()
    save_file(kept, tmp_path / "release" / "adapter_model.safetensors")
    same(VarsDoc.from_pretrained(tmp_path / "release", device="cpu"), stock)


def test_our_adapter_may_stand_on_an_adapter_release(tmp_path: Path) -> None:
    """The paper's way: a ColQwen2.5 release, expanded, trained with LoRA, saved, loaded."""
    stock = Stock()
    write_adapter(tmp_path / "release", stock, write(tmp_path / "base", stock.state_dict()))
    with pytest.warns(UntrainedWarning):
        model = VarsDoc.from_pretrained(tmp_path / "release", variants=3, branch_layers=2, device="cpu")
    model.set_trainable(LoraSettings(r=2))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.05)
    model.save_pretrained(tmp_path / "ours")
    with pytest.warns(UntrainedWarning):
        again = VarsDoc.from_pretrained(tmp_path / "ours", device="cpu")
    expected, actual = (m.encode_pages([tiny.page(84, 112)])[0].variants for m in (model, again))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("layout", ["old", "new"])
def test_a_release_as_an_adapter_over_its_base_is_plain_colqwen(layout: str, tmp_path: Path) -> None:
    stock = Stock()
    release = tmp_path / "release"
    adapter = write_adapter(release, stock, write(tmp_path / "base", stock.state_dict(), layout), layout)
    ours = VarsDoc.from_pretrained(release, device="cpu")
    same(ours, stock)
    assert not any("lora" in name for name, _ in ours.named_parameters()), "the adapter is folded in"

    adapter.pop("base_model.model.custom_text_proj.lora_B.weight")
    save_file(adapter, release / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks tensor custom_text_proj\.lora_B\.weight"):
        VarsDoc.from_pretrained(release, device="cpu")
    save_file(adapter | {"base_model.model.other.lora_B.weight": torch.zeros(2)}, release / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks tensor|unexpected tensor|does not fit"):
        VarsDoc.from_pretrained(release, device="cpu")


def test_a_plain_qwen_has_a_fresh_seeded_head_and_says_so(tmp_path: Path) -> None:
    stock = Stock()
    state = {name: tensor for name, tensor in stock.state_dict().items() if "custom" not in name}
    folder = write(tmp_path / "qwen", state | {"lm_head.weight": torch.zeros(2, 64)}, "wrapped")
    (folder / "preprocessor_config.json").write_text(json.dumps({"max_pixels": 12845056, "min_pixels": 3136}))
    with pytest.warns(UntrainedWarning):
        ours = VarsDoc.from_pretrained(folder, device="cpu")
    with pytest.warns(UntrainedWarning):
        again = VarsDoc.from_pretrained(folder, device="cpu", seed=1)
    assert ours.config.dim == 128
    assert ours.config.max_visual_tokens == 768, "not the 16,384 of the chat model"
    assert not torch.equal(ours.head(0).weight, again.head(0).weight)
    stock.custom_text_proj = ours.head(0)
    same(ours, stock)


def test_a_release_expands_to_five_variants_to_be_trained(tmp_path: Path) -> None:
    stock = Stock()
    folder = write(tmp_path / "release", stock.state_dict())
    with pytest.warns(UntrainedWarning, match="untrained"):
        ours = VarsDoc.from_pretrained(folder, variants=5, branch_layers=3, device="cpu")
    assert (ours.config.variants, ours.config.branch_layers, ours.config.heads) == (5, 3, "separate")
    assert ours.probes.shape == (5, 64)
    assert torch.equal(ours.head(4).weight, stock.custom_text_proj.weight)
    with pytest.warns(UntrainedWarning):
        assert VarsDoc.from_pretrained(folder, variants=5, device="cpu").config.branch_layers == 4
    with pytest.warns(UntrainedWarning):
        warm = VarsDoc.from_pretrained(folder, branch_layers=2, device="cpu")
    assert (warm.config.variants, warm.config.probes, warm.config.heads) == (1, 1, "shared")


def test_pixel_limits_and_statistics_come_from_the_release(tmp_path: Path) -> None:
    folder = write(tmp_path / "release", Stock().state_dict())
    settings = {
        "max_pixels": 100 * 784,
        "min_pixels": 8 * 784,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.2, 0.2],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    config = VarsDoc.from_pretrained(folder, device="cpu").config
    assert (config.max_visual_tokens, config.min_visual_tokens) == (100, 8)
    assert config.image_mean == (0.5, 0.4, 0.3)
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {"size": {"longest_edge": 784 * 50}}}))
    assert VarsDoc.from_pretrained(folder, device="cpu").config.max_visual_tokens == 50
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {"max_pixels": "x"}}))
    with pytest.raises(CheckpointError, match=r"image settings beside .* cannot be read"):
        VarsDoc.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("name", ["language_model.layers.2.self_attn.k_proj.bias", "visual.merger.mlp.0.weight"])
def test_a_missing_or_unexpected_key_is_named(name: str, tmp_path: Path) -> None:
    state = Stock().state_dict()
    tensor = state.pop(name)
    with pytest.raises(CheckpointError, match=f"lacks tensor backbone.{re.escape(name)}"):
        VarsDoc.from_pretrained(write(tmp_path / "less", state), device="cpu")
    state |= {name: tensor, name + "_extra": tensor}
    with pytest.raises(CheckpointError, match=f"unexpected tensor backbone.{re.escape(name)}_extra"):
        VarsDoc.from_pretrained(write(tmp_path / "more", state), device="cpu")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "release", Stock().state_dict(), image_token_id=77)
    with pytest.raises(CheckpointError, match=r"the id 8190, but config\.json says 77"):
        VarsDoc.from_pretrained(folder, device="cpu")
