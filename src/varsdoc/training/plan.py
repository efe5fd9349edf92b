"""`varsdoc train --dry-run`: what a config would train, for how long, in how much memory, and what is missing.

Nothing is loaded: the model is built on the meta device, also where its weights are absent. Where not even its
config.json is there, the shape of Qwen2.5-VL-3B is assumed and said so.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from varsdoc.errors import VarsDocError
from varsdoc.model import VarsConfig, VarsDoc, trainable_parameters
from varsdoc.model.checkpoint import nano_folder, read_tokenizer
from varsdoc.model.qwen25vl import qwen_3b
from varsdoc.training.build import architecture, choose_trainable, spread_probes
from varsdoc.training.config import TrainConfig, load_config, read_settings
from varsdoc.training.memory import Memory, estimate
from varsdoc.training.sources import open_source
from varsdoc.training.stages import launched_ranks, optimiser_steps

if TYPE_CHECKING:
    from varsdoc.training.reading.plan import ReadPlan

# The ColPali training set, where it is named but not here.
KNOWN_PAIRS = {"vidore/colpali_train_set": 118_695}
QUERY_TOKENS = 32  # a question of twenty tokens, its prefix and the augmentation


@dataclass(frozen=True)
class Plan:
    """What a stage would do."""

    model: str
    variants: int
    branch_layers: int
    heads: str
    trainable: int
    parameters: int
    pairs: int | None
    ranks: int
    global_batch: int
    steps: int | None
    page_tokens: int
    tokens_per_step: int
    memory: Memory
    missing: list[str]

    def lines(self) -> list[str]:
        """For people."""
        share = 100 * self.trainable / self.parameters
        pairs = "unknown" if self.pairs is None else f"{self.pairs:,}"
        return [
            f"model       {self.model}: K={self.variants}, n={self.branch_layers}, {self.heads} heads",
            f"parameters  {self.parameters:,}, of which {self.trainable:,} are trained ({share:.2f} %)",
            f"data        {pairs} pairs; {self.ranks} rank{'s' * (self.ranks > 1)}, global batch {self.global_batch}",
            f"steps       {'unknown' if self.steps is None else f'{self.steps:,}'}",
            f"tokens      {self.tokens_per_step:,} a step ({self.page_tokens} a page at the visual-token cap, "
            f"{QUERY_TOKENS} a question, over all ranks)",
            *self.memory.lines(),
            *(f"missing     {what}" for what in self.missing),
        ]


def plan(path: str | Path) -> Plan | ReadPlan:
    """Look at a config without running it."""
    if read_settings(Path(path)).get("stage") == "read":
        from varsdoc.training.reading.plan import read_plan

        return read_plan(path)
    config = load_config(path)
    missing: list[str] = []
    settings, named = _settings(config, missing)
    with torch.device("meta"):
        model = VarsDoc(settings, read_tokenizer(nano_folder()))
        spread_probes(model, config.model.probes_per_variant, 0.0, 0)
        choose_trainable(model, config.model, 0)
    trainable, total = trainable_parameters(model)
    pairs = _pairs(config, missing)
    ranks = launched_ranks()
    page_tokens = settings.max_visual_tokens + len(model.processor.prompt_ids)
    everyone = config.optim.batch * ranks
    if config.eval.folder and not (Path(config.eval.folder) / "corpus.jsonl").is_file():
        missing.append(f"the judged folder {config.eval.folder}")
    if "tensorboard" in config.report_to and find_spec("tensorboard") is None:
        missing.append("tensorboard (optional): pip install 'varsdoc[train]'")
    return Plan(
        model=named,
        variants=settings.variants,
        branch_layers=settings.branch_layers,
        heads=settings.heads,
        trainable=trainable,
        parameters=total,
        pairs=pairs,
        ranks=ranks,
        global_batch=everyone,
        steps=config.optim.steps if pairs is None else optimiser_steps(config, pairs, ranks),
        page_tokens=page_tokens,
        tokens_per_step=everyone * (page_tokens + QUERY_TOKENS),
        memory=estimate(model, config, page_tokens, QUERY_TOKENS, ranks),
        missing=missing,
    )


def _settings(config: TrainConfig, missing: list[str]) -> tuple[VarsConfig, str]:
    """The architecture of the source, or of what the stages before would make, or the 3B shape."""
    chain, stage = [config], config
    while stage.after:
        stage = load_config(stage.after)
        if chain[0] is config and len(chain) == 1 and not (stage.result / "varsdoc.json").is_file():
            missing.append(f"the result of {config.after} ({stage.result}); it runs first")
        chain.append(stage)
    source = chain[-1].model.source
    folder = nano_folder() if source is None else _cached(source)
    if folder is None:
        missing.append(f"the weights of {source}; the shape of Qwen2.5-VL-3B is assumed")
        settings = VarsConfig(qwen_3b(), variants=1, branch_layers=0, heads="shared")
    else:
        settings = architecture(folder, chain[-1].model)
    for part in reversed(chain):
        wanted = part.model
        variants = wanted.variants or settings.variants
        grows = variants > 1 and settings.variants == 1
        settings = settings.with_(
            variants=variants,
            branch_layers=settings.branch_layers if wanted.branch_layers is None else wanted.branch_layers,
            heads=wanted.heads or ("separate" if grows else settings.heads),
            max_visual_tokens=wanted.max_visual_tokens or settings.max_visual_tokens,
        )
    # Only counted, never run: the packaged tokenizer stands in, so its image token must be the config's.
    settings.backbone.image_token_id = 8190
    return settings, source or "the packaged checkpoint"


def _cached(source: str) -> Path | None:
    """A folder, or what the hub cache holds of a hub id; the network is never asked."""
    path = Path(source).expanduser()
    if (path / "config.json").is_file() or (path / "varsdoc.json").is_file():
        return path
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(source, "config.json")
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _pairs(config: TrainConfig, missing: list[str]) -> int | None:
    total: int | None = 0
    if not config.data.train:
        missing.append("training data: data.train is empty")
    for path in config.data.train:
        try:
            if path in KNOWN_PAIRS and not Path(path).exists():
                count: int | None = KNOWN_PAIRS[path]
                missing.append(f"the data set {path}, if the hub cache does not hold it; its known size is used")
            else:
                count = len(open_source(path)) if Path(path).expanduser().exists() else None
                if count is None:
                    missing.append(f"the training data {path}")
        except VarsDocError as error:
            count = None
            missing.append(f"training data: {error}")
        total = None if total is None or count is None else total + count
    return total or None
