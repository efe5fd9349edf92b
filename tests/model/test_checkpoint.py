"""Save, load, expand: what was saved comes back, and what cannot be is said in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny
from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.model import LoraSettings, UntrainedWarning, VarsDoc, nano_config
from varsdoc.model.sources import SCALE

PAGE = [tiny.page(140, 112)]
SMALL_LORA = LoraSettings(r=4, alpha=8)


def load(folder: Path | str | None, **options: Any) -> VarsDoc:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)
        return VarsDoc.from_pretrained(folder, device="cpu", **options)


def vectors(model: VarsDoc) -> torch.Tensor:
    return model.encode_pages(PAGE)[0].variants


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"variants": 1, "branch_layers": 0, "heads": "shared"},
        {"variants": 1, "heads": "shared"},
        {"variants": 2, "branch_layers": 0},
        {"variants": 3, "heads": "shared", "query_prefix": "", "max_visual_tokens": 12, "query_augmentation": 3},
    ],
)
def test_save_and_load_give_the_same_bytes(settings: dict[str, Any], tmp_path: Path) -> None:
    model = tiny.model(**settings)
    model.save_pretrained(tmp_path / "a")
    again = load(tmp_path / "a")
    assert again.config.settings() == model.config.settings()
    assert torch.equal(vectors(again), vectors(model))
    assert torch.equal(again.encode_queries(["hello"])[0], model.encode_queries(["hello"])[0])
    again.save_pretrained(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert again.checkpoint_hash == model.checkpoint_hash


def test_the_hash_follows_weights_and_settings(tmp_path: Path) -> None:
    model = tiny.model()
    first = model.checkpoint_hash
    assert len(first) == 16
    assert tiny.model().checkpoint_hash == first
    assert tiny.model(seed=1).checkpoint_hash != first
    assert tiny.model(query_prefix="").checkpoint_hash != first
    with torch.no_grad():
        model.probes[0, 0] += 1
    assert model.checkpoint_hash != first


def test_an_override_at_load_changes_the_hash(tmp_path: Path) -> None:
    tiny.model().save_pretrained(tmp_path)
    assert load(tmp_path, query_prefix="").checkpoint_hash != load(tmp_path).checkpoint_hash
    assert load(tmp_path, max_visual_tokens=12).config.max_visual_tokens == 12


def test_shards_are_written_and_read(tmp_path: Path) -> None:
    model = tiny.model()
    model.save_pretrained(tmp_path, shard_bytes=200_000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert torch.equal(vectors(load(tmp_path)), vectors(model))
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("model-*.safetensors")), "an older, sharded save leaves nothing behind"
    assert torch.equal(vectors(load(tmp_path)), vectors(model))


def test_weights_stored_in_int8_are_dequantised_at_load(tmp_path: Path) -> None:
    model = tiny.model()
    model.save_pretrained(tmp_path / "int8", dtype="int8")
    model.save_pretrained(tmp_path / "float32")
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("int8", "float32")]
    assert sizes[0] < 0.32 * sizes[1]
    stored = load_file(tmp_path / "int8" / "model.safetensors")
    assert stored["language_model.layers.0.mlp.up_proj.weight"].dtype == torch.int8
    assert "language_model.layers.0.mlp.up_proj.weight" + SCALE in stored
    again = load(tmp_path / "int8")
    assert again.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(vectors(again), vectors(model), dim=-1).min() > 0.99
    assert again.checkpoint_hash == load(tmp_path / "int8").checkpoint_hash != model.checkpoint_hash


def test_half_precision_on_disk_and_another_dtype_in_memory(tmp_path: Path) -> None:
    tiny.model().save_pretrained(tmp_path, dtype="bfloat16")
    assert load(tmp_path).dtype == torch.float32, "float32 on CPU by default"
    assert load(tmp_path, dtype="bfloat16").dtype == torch.bfloat16
    assert load(tmp_path).checkpoint_hash == load(tmp_path, dtype="bfloat16").checkpoint_hash


def test_the_packaged_model_is_the_same_every_time_and_says_that_it_is_untrained() -> None:
    with pytest.warns(UntrainedWarning, match="untrained"):
        model = VarsDoc.from_pretrained(device="cpu")
    assert model.config.variants == 5
    assert model.config.settings() == nano_config().settings()
    assert 25e6 < sum(p.numel() for p in model.parameters()) < 35e6
    assert load(None).checkpoint_hash == model.checkpoint_hash
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    assert load(None).checkpoint_hash == model.checkpoint_hash
    assert torch.equal(torch.random.get_rng_state(), before), "loading does not move the global random state"


# Expansion


@pytest.mark.parametrize("branch_layers", [1, 2, 4])
def test_after_expansion_variant_one_is_the_warmed_up_model(branch_layers: int) -> None:
    warm = tiny.model(1, branch_layers, heads="shared")
    before, question = vectors(warm), warm.encode_queries(["hello"])[0]
    wide = tiny.model(1, branch_layers, heads="shared").expand(5)
    after = vectors(wide)
    torch.testing.assert_close(after[0], before[0], atol=1e-6, rtol=0)
    assert torch.equal(wide.encode_queries(["hello"])[0], question)
    assert len(wide.heads) == 5
    assert wide.query_head is not None
    assert torch.equal(wide.probes, warm.probes.expand(5, -1))
    others = (after[1:] - after[:1]).abs().amax(dim=(1, 2))
    assert (others > 0).all(), "later probes sit elsewhere and read the earlier ones, so their variants differ"


def test_expansion_without_a_probe_projects_the_same_states() -> None:
    """branch_layers = 0 with K > 1 is the ablation "projection only": all variants start equal."""
    plain = tiny.model(1, 0, heads="shared")
    before = vectors(plain)
    after = vectors(plain.expand(3, 0))
    assert torch.equal(after, before.expand(3, -1, -1))


def test_noise_is_seeded_relative_and_spares_variant_one() -> None:
    def wide(noise: float, seed: int = 0) -> VarsDoc:
        return tiny.model(1, 2, heads="shared").expand(3, noise=noise, seed=seed)

    exact, noisy, again, other = wide(0), wide(0.1), wide(0.1), wide(0.1, seed=1)
    assert torch.equal(noisy.probes, again.probes)
    assert not torch.equal(noisy.probes, other.probes)
    assert torch.equal(noisy.probes[0], exact.probes[0])
    assert torch.equal(noisy.head(0).weight, exact.head(0).weight)
    spread = (noisy.probes - exact.probes)[1:].std() / exact.probes.std()
    assert 0.08 < spread < 0.12
    assert exact.query_head is not None
    assert noisy.query_head is not None
    assert torch.equal(noisy.query_head.weight, exact.query_head.weight)


def test_expansion_may_keep_one_head_for_the_ablation() -> None:
    model = tiny.model(1, 2, heads="shared").expand(3, heads="shared")
    assert len(model.heads) == 1
    assert model.query_head is None
    assert vectors(model).shape[0] == 3


def test_loading_expands_a_checkpoint_of_one_variant_and_warns(tmp_path: Path) -> None:
    warm = tiny.model(1, 2, heads="shared", trained=True)
    warm.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VarsDoc.from_pretrained(tmp_path, device="cpu")
    with pytest.warns(UntrainedWarning, match="probes or heads are fresh"):
        wide = VarsDoc.from_pretrained(tmp_path, variants=3, device="cpu")
    assert wide.config.variants == 3
    torch.testing.assert_close(vectors(wide)[0], vectors(warm)[0], atol=1e-6, rtol=0)


def test_probes_start_at_the_mean_page_token() -> None:
    model = tiny.model(3, 2)
    batch = tiny.batch(model)
    model.reset_probes(batch)
    from varsdoc.model.qwen25vl import Qwen25VL

    with torch.no_grad():
        tokens = Qwen25VL(model.backbone).embed_pages(batch, model.config.image_mean, model.config.image_std)[
            batch.mask
        ]
    torch.testing.assert_close(model.probes.data, tokens.mean(0).expand(3, -1), atol=0.2, rtol=0)
    assert not torch.equal(model.probes[0], model.probes[1])
    fresh = VarsDoc(model.config, tiny.tokenizer())
    rows = fresh.backbone.language_model.embed_tokens.weight[fresh.processor.prompt_ids]
    torch.testing.assert_close(fresh.probes.data, rows.mean(0).expand(3, -1).detach(), atol=0.01, rtol=0)


# LoRA


def test_an_adapter_is_saved_with_probes_and_heads_and_comes_back(tmp_path: Path) -> None:
    base = tiny.model(3, 2)
    base.save_pretrained(tmp_path / "base")
    model = load(tmp_path / "base").set_trainable(SMALL_LORA)
    tiny.randomise(model, seed=5)
    # randomise moved the base too: put it back, keep LoRA, probes and heads.
    stored = load_file(tmp_path / "base" / "model.safetensors")
    state = model.state_dict()
    for name in state:
        plain = name.removeprefix("backbone.").replace(".base_layer", "")
        if plain in stored and name.startswith("backbone."):
            state[name].copy_(stored[plain])
    model.save_pretrained(tmp_path / "adapter")
    names = {path.name for path in (tmp_path / "adapter").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "varsdoc.safetensors", "varsdoc.json"} <= names
    assert "model.safetensors" not in names
    again = load(tmp_path / "adapter")
    expected = vectors(model)
    torch.testing.assert_close(vectors(again), expected, atol=1e-6, rtol=0)
    assert (expected - vectors(base)).abs().max() > 1e-2
    torch.testing.assert_close(vectors(again.merge_lora()), expected, atol=1e-4, rtol=0)
    again.save_pretrained(tmp_path / "merged")
    torch.testing.assert_close(vectors(load(tmp_path / "merged")), expected, atol=1e-4, rtol=0)


def test_an_adapter_finds_its_base_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.model(3, 2).save_pretrained(tmp_path / "base")
    model = load(tmp_path / "base").set_trainable(SMALL_LORA)
    model.save_pretrained(tmp_path / "adapter", base="owner/elsewhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="owner/elsewhere is neither a folder nor in the hub cache"):
        load(tmp_path / "adapter")
    assert torch.equal(vectors(load(tmp_path / "adapter", base=tmp_path / "base")), vectors(model))


# Bad checkpoints


def broken(tmp_path: Path, what: str) -> Path:
    tiny.model().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    state = load_file(weights)
    settings = json.loads((tmp_path / "varsdoc.json").read_text())
    if what == "missing tensor":
        del state["language_model.layers.1.mlp.up_proj.weight"]
        save_file(state, weights)
    elif what == "unexpected tensor":
        save_file(state | {"language_model.layers.9.extra": torch.zeros(2)}, weights)
    elif what == "wrong shape":
        state["probes"] = torch.zeros(3, 7)
        save_file(state, weights)
    elif what == "truncated":
        weights.write_bytes(weights.read_bytes()[:5000])
    elif what == "pickles only":
        weights.rename(tmp_path / "pytorch_model.bin")
    elif what == "no weights":
        weights.unlink()
    elif what == "no tokenizer":
        (tmp_path / "tokenizer.json").unlink()
    elif what == "damaged tokenizer":
        (tmp_path / "tokenizer.json").write_text("{}")
    elif what == "damaged settings":
        (tmp_path / "varsdoc.json").write_text("{")
    elif what == "unknown setting":
        (tmp_path / "varsdoc.json").write_text(json.dumps(settings | {"window": 3}))
    elif what == "newer format":
        (tmp_path / "varsdoc.json").write_text(json.dumps(settings | {"format": 99}))
    elif what == "another architecture":
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    elif what == "list for settings":
        (tmp_path / "config.json").write_text("[1]")
    elif what == "settings of another K":
        (tmp_path / "varsdoc.json").write_text(json.dumps(settings | {"variants": 4}))
    return tmp_path


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing tensor", r"lacks tensor backbone\.language_model\.layers\.1\.mlp\.up_proj\.weight"),
        ("unexpected tensor", r"unexpected tensor backbone\.language_model\.layers\.9\.extra"),
        ("wrong shape", r"has probes with shape \(3, 7\)"),
        ("truncated", "is damaged"),
        ("pickles only", "pickled weights only"),
        ("no weights", "has no model.safetensors"),
        ("no tokenizer", "has no tokenizer.json"),
        ("damaged tokenizer", "tokenizer.json cannot be read"),
        ("damaged settings", "varsdoc.json cannot be read"),
        ("unknown setting", "unknown setting 'window'"),
        ("newer format", "format 99"),
        ("another architecture", "type 'bert'"),
        ("list for settings", "holds a list"),
        ("settings of another K", r"lacks tensor heads\.3"),
    ],
)
def test_a_bad_checkpoint_is_one_sentence(what: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        load(broken(tmp_path, what))
    assert "\n" not in str(caught.value)


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json; it is not a checkpoint"):
        load(tmp_path)
    with pytest.raises(CheckpointError, match="There is no folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is a file"):
        load(tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"variants": 3}, CheckpointError, "has K=2 variants, and K=3 was asked for"),
        ({"variants": 0}, ConfigError, "variants must be 1 or more, not 0"),
        ({"branch_layers": 9}, ConfigError, "between 0 and the backbone's 4 blocks, not 9"),
        ({"branch_layers": 1}, CheckpointError, "made with branch_layers=2"),
        ({"heads": "shared"}, CheckpointError, "separate heads"),
        ({"dtype": "float8"}, ConfigError, "no dtype 'float8'"),
        ({"max_visual_tokens": 0}, ConfigError, "max_visual_tokens must be 1 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], error: type, message: str, tmp_path: Path) -> None:
    tiny.model(2, 2).save_pretrained(tmp_path)
    with pytest.raises(error, match=message):
        load(tmp_path, **options)


@pytest.mark.parametrize("device", ["tpu", "cuda:99"])
def test_devices_that_are_not_there_are_refused(device: str, tmp_path: Path) -> None:
    tiny.model(2, 2).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"no device|Device cuda:99 was asked for"):
        VarsDoc.from_pretrained(tmp_path, device=device)


def test_a_save_that_fails_leaves_no_folder_that_looks_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model()
    model.save_pretrained(tmp_path)
    monkeypatch.setattr("varsdoc.model.checkpoint.save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob(".*partial"))


def test_a_hub_id_is_read_from_the_cache_without_network(tmp_path: Path) -> None:
    """A snapshot in the layout of the hub cache, and every socket refused."""
    snapshot = tmp_path / "models--owner--name" / "snapshots" / "abc"
    tiny.model().save_pretrained(snapshot)
    (tmp_path / "models--owner--name" / "refs").mkdir()
    (tmp_path / "models--owner--name" / "refs" / "main").write_text("abc")
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise SystemExit('the network was touched')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from varsdoc.model import VarsDoc\n"
        "print(VarsDoc.from_pretrained('owner/name', device='cpu').config.variants)\n"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3", done.stderr
