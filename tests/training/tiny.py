"""A model, pages and configs small enough to train in seconds on one core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import yaml
from PIL import Image, ImageDraw
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLConfig

from varsdoc.model import PageBatch, QueryBatch, VarsConfig, VarsDoc
from varsdoc.model.checkpoint import nano_folder

WORDS = ("red", "blue", "green", "black", "orange", "purple", "brown", "pink", "navy", "teal", "gold", "gray")


def tiny_config(**changes: Any) -> VarsConfig:
    backbone = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 8192,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
            "bos_token_id": None,
            "eos_token_id": 8178,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
            "window_size": 112,
        },
        image_token_id=8190,
        video_token_id=8191,
        vision_start_token_id=8187,
        vision_end_token_id=8188,
        tie_word_embeddings=True,
    )
    plain = {
        "backbone": backbone,
        "variants": 1,
        "branch_layers": 0,
        "heads": "shared",
        "dim": 16,
        "query_augmentation": 2,
    }
    return VarsConfig(**{**plain, "max_visual_tokens": 16, **changes})


def tiny_model(seed: int = 0, **changes: Any) -> VarsDoc:
    tokenizer = Tokenizer.from_file(str(nano_folder() / "tokenizer.json"))
    model = VarsDoc(tiny_config(**changes), tokenizer, seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("weight") and parameter.ndim == 2:
                parameter.mul_(3)  # at the stock 0.02 so small a model is nearly constant
    return model


def draw_page(i: int) -> Image.Image:
    """Each page has its own colour and pattern; sizes differ, so batches are padded."""
    page = Image.new("RGB", (56 + 28 * (i % 3), 84), "white")
    pen = ImageDraw.Draw(page)
    pen.rectangle((4, 4, 40, 20 + 4 * (i % 12)), fill=WORDS[i % 12])
    pen.rectangle((4, 60, 50, 80), fill=WORDS[(i * 5 + 1 + i // 12) % 12])
    return page


def question(i: int) -> str:
    return f"which page is {WORDS[i % 12]} above {WORDS[(i * 5 + 1 + i // 12) % 12]} {'really ' * (i % 3)}number {i}"


def tensors(model: VarsDoc, rows: range) -> tuple[PageBatch, QueryBatch]:
    processor = model.processor
    return (
        processor.pages([processor.page(draw_page(i)) for i in rows]),
        processor.queries([processor.query_ids(question(i)) for i in rows]),
    )


def write_beir(folder: Path, pages: int) -> Path:
    (folder / "images").mkdir(parents=True)
    (folder / "qrels").mkdir()
    for i in range(pages):
        draw_page(i).save(folder / "images" / f"{i}.png")
    corpus = [{"_id": f"p{i}", "image": f"images/{i}.png"} for i in range(pages)]
    queries = [{"_id": f"q{i}", "text": question(i)} for i in range(pages)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in queries))
    rows = "".join(f"q{i}\tp{i}\t1\n" for i in range(pages))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def write_config(path: Path, **content: Any) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def run_settings(root: Path, output: str = "run", **optim: Any) -> dict[str, Any]:
    """A config that trains the model in root/base on root/data in a handful of steps."""
    return {
        "output": str(root / output),
        "model": {"source": str(root / "base"), "variants": 1, "branch_layers": 2},
        "loss": {"kind": "pairwise"},
        "data": {"train": [str(root / "data")], "workers": 0},
        "optim": {
            "steps": 4, "batch": 4, "lr": 1e-3, "lr_warmup_steps": 0, "bf16": False, "gradient_checkpointing": False,
            **optim,
        },
        "log_every": 1,
        "save_every": 2,
        "report_to": [],
    }  # fmt: skip


def make_root(root: Path, pages: int = 24) -> Path:
    """root/base and root/data."""
    model = tiny_model()
    model.save_pretrained(root / "base")
    write_beir(root / "data", pages)
    return root
