"""Write config.json and varsdoc.json of varsdoc-nano.

    PYTHONPATH=src python scripts/nano_config.py src/varsdoc/model/nano

A Qwen2.5-VL in small, nothing else: the language tower 8 x 384 with 6 heads of 64 (2 of them for keys), the vision
tower 8 x 320 with 5 heads of 64, windows of 4 x 4 cells, full attention in blocks 4 and 8.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformers import Qwen2_5_VLConfig

from varsdoc.model.config import VarsConfig
from varsdoc.model.qwen25vl import config_json

BACKBONE = {
    "text_config": {
        "vocab_size": 8192,
        "hidden_size": 384,
        "intermediate_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
        "bos_token_id": None,
        "eos_token_id": 8178,
    },
    "vision_config": {
        "depth": 8,
        "hidden_size": 320,
        "intermediate_size": 1280,
        "num_heads": 5,
        "out_hidden_size": 384,
        "fullatt_block_indexes": [3, 7],
        "window_size": 112,
    },
    "image_token_id": 8190,
    "video_token_id": 8191,
    "vision_start_token_id": 8187,
    "vision_end_token_id": 8188,
    "tie_word_embeddings": True,
}


def main(folder: Path) -> None:
    tokens = {"min_visual_tokens": 900, "max_visual_tokens": 1024}  # small pages are enlarged: their print is small
    config = VarsConfig(Qwen2_5_VLConfig(**BACKBONE), variants=5, branch_layers=4, **tokens)
    (folder / "config.json").write_text(config_json(config.backbone))
    (folder / "varsdoc.json").write_text(json.dumps(config.settings(), indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
