"""Rotation tables stay in float32 whatever the weights are in."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

from varsdoc.model import VarsDoc, nano_config
from varsdoc.model.checkpoint import nano_folder


def test_a_model_in_bfloat16_turns_by_the_same_angles() -> None:
    model = VarsDoc(nano_config(), Tokenizer.from_file(str(nano_folder() / "tokenizer.json")))
    before = model.backbone.language_model.rotary_emb.inv_freq.clone()
    model.to_device("cpu", "bfloat16")
    assert model.dtype == torch.bfloat16
    assert torch.equal(model.backbone.language_model.rotary_emb.inv_freq, before)
