"""Both stages from the command line, on one process and on two; expansion; ablations."""

from __future__ import annotations

import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from training.launch import ROOT, python, torchrun
from training.tiny import draw_page, question, run_settings, tiny_model, write_beir, write_config
from varsdoc.model import UntrainedWarning, VarsDoc
from varsdoc.training.build import build_model, source_of
from varsdoc.training.config import TrainConfig, load_config
from varsdoc.training.expansion import expansion_gaps
from varsdoc.training.judge import ndcg
from varsdoc.training.stages import train

LORA = {"r": 8, "alpha": 16, "dropout": 0.1}


def two_stages(root: Path) -> tuple[Path, Path]:
    warm = run_settings(root, "warm", steps=150, batch=12, lr=5e-4, lr_warmup_steps=10) | {"save_every": 50}
    warm["model"] |= {"vision": True}
    adapt = run_settings(root, "adapt", steps=20, batch=8, micro_batch=4, grad_cache=True, lr=1e-3)
    adapt["model"] = {"variants": 3, "heads": "separate", "noise": 0.05, "lora": LORA}
    adapt["loss"] = {"kind": "infonce", "score": "mean", "temperature": 0.1, "hardness": "normalised"}
    adapt |= {"after": "warm.yaml", "eval": {"folder": str(root / "data"), "every": 10}, "report_to": ["tensorboard"]}
    return write_config(root / "warm.yaml", **warm), write_config(root / "adapt.yaml", **adapt)


def history(run: Path, step: int) -> list[dict[str, float]]:
    return json.loads((run / f"checkpoint-{step}" / "trainer_state.json").read_text())["log_history"]


def test_both_stages_train_from_the_command_line(root: Path) -> None:
    started = time.perf_counter()
    warm, adapt = two_stages(root)
    done = python("-m", "varsdoc.cli", "train", str(warm))
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [line["loss"] for line in history(root / "warm", 150) if "loss" in line]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    done = python("-m", "varsdoc.cli", "train", str(adapt))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "20 steps" in done.stderr
    lines = history(root / "adapt", 20)
    curve = next(line for line in lines if line["step"] == 20 and "loss" in line)
    assert {"loss_retrieval", "loss_balance", "loss_diversity", "tie_rate", "tie_rate_mean", "max_usage"} <= set(curve)
    assert sum(curve[f"usage_{k}"] for k in range(3)) == pytest.approx(1)
    quality = [line["eval_ndcg@10"] for line in lines if "eval_ndcg@10" in line]
    assert len(quality) == 2
    assert quality[-1] > 0.5  # chance is about .19 on 24 pages
    assert any((root / "adapt" / "runs").rglob("events.out.tfevents.*"))
    model = VarsDoc.from_pretrained(root / "adapt" / "model")
    assert (model.config.variants, model.config.trained) == (3, True)
    assert not any(module.training for module in model.modules())
    scores = model.score(
        model.encode_queries([question(i) for i in range(24)]), model.encode_pages([draw_page(i) for i in range(24)])
    )
    loaded = sum(ndcg(scores.total[i], {i: 1}) for i in range(24)) / 24
    assert loaded == pytest.approx(quality[-1], abs=1e-3)  # what was saved is what was measured
    assert time.perf_counter() - started < 90


def test_the_stage_before_runs_first_where_it_has_not(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    warm = run_settings(root, "warm", steps=1)
    adapt = run_settings(root, "adapt", steps=1) | {"after": "warm.yaml", "model": {"variants": 2, "heads": "separate"}}
    write_config(root / "warm.yaml", **warm)
    with caplog.at_level(logging.WARNING):
        finished = train(write_config(root / "adapt.yaml", **adapt))
    said = [record.getMessage() for record in caplog.records]
    assert any("running it first" in line for line in said)
    assert any(line.startswith("expanded 1 -> 2; scores of variants 2.. differ") for line in said)
    assert (root / "warm" / "model" / "varsdoc.json").is_file()
    assert VarsDoc.from_pretrained(finished.model).config.variants == 2


def test_two_ranks_train_as_one_process_with_the_same_global_batch(root: Path) -> None:
    for name, batch in (("one", 4), ("two", 2)):
        content = run_settings(root, name, steps=3, batch=batch)
        content["model"] |= {"variants": 3, "heads": "separate"}
        content["loss"] = {"kind": "infonce", "balance": 5.0, "diversity": 2.0, "gamma": 1.0}
        content["eval"] = {"folder": str(root / "data"), "every": 3}
        write_config(root / f"{name}.yaml", **content)
    train(root / "one.yaml")
    done = torchrun("-m", "varsdoc.cli", "train", str(root / "two.yaml"))
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = history(root / "one", 3), history(root / "two", 3)
    for a, b in zip(one, two, strict=True):
        for name in set(a) & {"loss", "loss_retrieval", "loss_balance", "loss_diversity", "usage_0", "eval_ndcg@10"}:
            assert b[name] == pytest.approx(a[name], rel=1e-4, abs=1e-4), (a["step"], name)


def test_bf16_with_lora_checkpointing_and_evaluation_runs(root: Path) -> None:
    content = run_settings(root, steps=2, bf16=True, gradient_checkpointing=True)
    content["model"] |= {"variants": 3, "heads": "separate", "lora": LORA}
    content["eval"] = {"folder": str(root / "data"), "every": 2}
    train(write_config(root / "c.yaml", **content))
    assert "eval_ndcg@10" in history(root / "run", 2)[-1]
    model = build_model(load_config(root / "c.yaml"))
    kinds = {p.dtype for p in model.parameters() if p.requires_grad}, {p.dtype for p in model.parameters()}
    assert kinds == ({torch.float32}, {torch.float32, torch.bfloat16})


def test_training_from_random_weights_of_a_given_shape(root: Path) -> None:
    content = run_settings(root, steps=1)
    content["model"] |= {"fresh": True, "vision": True}
    config = write_config(root / "c.yaml", **content)
    assert all(p.requires_grad for p in build_model(load_config(config)).parameters())
    assert train(config).steps == 1


def test_expansion_keeps_variant_one_and_reports_the_others(root: Path) -> None:
    train(write_config(root / "warm.yaml", **run_settings(root, "warm", steps=2)))
    warm = VarsDoc.from_pretrained(root / "warm" / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)
        wide = VarsDoc.from_pretrained(root / "warm" / "model", variants=5)
    pages, questions = [draw_page(i) for i in range(6)], [question(i) for i in range(6)]
    # On sum / query tokens: a float32 sum of many tokens is itself not known to 1e-6.
    scores = warm.score(warm.encode_queries(questions), warm.encode_pages(pages))
    before = scores.variants[..., 0] / scores.query_tokens[:, None]
    scores = wide.score(wide.encode_queries(questions), wide.encode_pages(pages))
    after = scores.variants / scores.query_tokens[:, None, None]
    assert (after[..., 0] - before).abs().max() <= 1e-6
    apart = [(after[..., k] - before).abs().max().item() for k in range(1, 5)]
    assert all(gap > 0 for gap in apart)  # another position, earlier probes in sight
    processor = wide.processor
    batches = (
        processor.pages([processor.page(p) for p in pages]),
        processor.queries([processor.query_ids(text) for text in questions]),
    )
    assert expansion_gaps(wide, *batches) == pytest.approx(apart, abs=1e-5)


ABLATIONS = sorted(path.stem for path in (ROOT / "configs" / "ablations").glob("*.yaml"))
NAMED = [
    *(f"design-{x}" for x in ("baseline", "projection", "probing", "branched", "full")),
    *(f"optim-no-{x}" for x in ("warmup", "hardness", "balance", "diversity")),
    *(f"k-{x}" for x in (1, 3, 5, 7)),
    *(f"n-{x}" for x in (2, 4, 6, 8)),
    *(f"lambda-bal-{x}" for x in ("0", "0.1", "0.2")),
    *(f"lambda-div-{x}" for x in ("0", "0.05", "0.2")),
    *(f"gamma-{x}" for x in ("0", "0.05", "0.2")),
]
SHAPES = {
    # variants, branch_layers, heads, probes
    "design-baseline": (1, 0, "shared", 0),
    "design-projection": (5, 0, "separate", 0),
    "design-probing": (1, 4, "shared", 5),
    "design-branched": (5, 4, "shared", 5),
    "k-1": (1, 4, "separate", 1),
    "k-3": (3, 4, "separate", 3),
    "k-7": (7, 4, "separate", 7),
    **{f"n-{n}": (5, n, "separate", 5) for n in (2, 4, 6, 8)},
}


def test_the_ablations_are_those_of_the_design() -> None:
    assert sorted(NAMED) == ABLATIONS
    assert all(len((ROOT / "configs" / "ablations" / f"{name}.yaml").read_text().splitlines()) <= 6 for name in NAMED)


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's configs with a tiny base of eight blocks in place of the 3B one."""
    root = tmp_path_factory.mktemp("configs")
    backbone = tiny_model().config.backbone
    backbone.text_config.num_hidden_layers = 8
    backbone.text_config.layer_types = ["full_attention"] * 8
    tiny_model(backbone=backbone).save_pretrained(root / "base")
    write_beir(root / "data", 4)
    for path in (ROOT / "configs").rglob("*.yaml"):
        content: dict[str, Any] = yaml.safe_load(path.read_text())
        if "output" in content:  # else it is a base that other configs lie over
            content["output"] = str(root / content["output"])
        if content.get("model", {}).get("source"):
            content["model"]["source"] = str(root / "base")
        target = root / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_config(target, **content)
    return root


def _built(config: TrainConfig) -> VarsDoc:
    """The model of a stage; the stage before is built and saved, not trained."""
    if config.after:
        before = load_config(config.after)
        if not (before.result / "varsdoc.json").is_file():
            _built(before).save_pretrained(before.result, base=source_of(before))
    return build_model(config)


@pytest.mark.parametrize("name", NAMED)
def test_every_ablation_builds_the_model_it_names(small_world: Path, name: str) -> None:
    config = load_config(small_world / "configs" / "ablations" / f"{name}.yaml")
    model = _built(config)
    shape = (model.config.variants, model.config.branch_layers, model.config.heads, len(model.probes))
    assert shape == SHAPES.get(name, (5, 4, "separate", 5))
    paper = load_config(small_world / "configs" / "paper" / "adapt.yaml").loss
    changed = {key for key, value in vars(config.loss).items() if value != getattr(paper, key)}
    values = {"optim-no-hardness": {"hardness"}, "optim-no-balance": {"balance"}, "optim-no-diversity": {"diversity"}}
    by_name = {"lambda-bal": {"balance"}, "lambda-div": {"diversity"}, "gamma": {"gamma"}}
    default = name in ("lambda-bal-0.1", "lambda-div-0.05", "gamma-0.05")
    assert changed == (values.get(name) or (set() if default else by_name.get(name.rpartition("-")[0], set())))
