"""A training run as one YAML file: model, loss, data, optimiser, evaluation, run.

Strict: an unknown key, a value of the wrong type or outside its range is one sentence that names the file and the key.
`base: other.yaml` starts from another file and changes what is written here; `after: warmup.yaml` names the stage
whose result this one starts from. Both paths are relative to the file; all others to the working directory.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from varsdoc.errors import ConfigError
from varsdoc.model.config import Heads, LoraSettings
from varsdoc.training.losses import Hardness, Scale, Unit


@dataclass(frozen=True)
class ModelConfig:
    """What is trained, and from what.

    source              a folder or hub id; null: the result of `after`, else the packaged checkpoint
    fresh               only its architecture, with random weights
    variants, branch_layers, heads, probes_per_variant  K, n, and the ablations of the paper; null: as in the source
    noise               relative noise on the copies of an expansion; 0 is the paper
    lora                null trains everything
    vision              train the vision tower too (with lora: null)
    """

    source: str | None = None
    fresh: bool = False
    variants: int | None = None
    branch_layers: int | None = None
    heads: Heads | None = None
    probes_per_variant: int = 1
    noise: float = 0.0
    max_visual_tokens: int | None = None
    query_prefix: str | None = None
    lora: LoraSettings | None = None
    vision: bool = False


@dataclass(frozen=True)
class LossConfig:
    """The loss and its scales.

    kind                 pairwise: the warm-up; infonce: the adaptation
    score, temperature   scale of the retrieval loss
    hardness             weights of negatives: none, paper, normalised
    balance, diversity   weights of these terms
    balance_score, balance_temperature, gamma_score     their own scales; gamma lives on gamma_score
    """

    kind: Literal["pairwise", "infonce"] = "infonce"
    score: Unit = "sum"
    temperature: float = 1.0
    hardness: Hardness = "paper"
    balance: float = 0.1
    balance_score: Unit = "sum"
    balance_temperature: float = 1.0
    diversity: float = 0.05
    gamma: float = 0.05
    gamma_score: Unit = "sum"

    @property
    def scale(self) -> Scale:
        return Scale(self.score, self.temperature)

    @property
    def balance_scale(self) -> Scale:
        return Scale(self.balance_score, self.balance_temperature)

    @property
    def margin_scale(self) -> Scale:
        return Scale(self.gamma_score)


@dataclass(frozen=True)
class DataConfig:
    """train: folders, files or hub ids (parquet as in the ColPali training set, BEIR folders, JSONL of pairs)."""

    train: list[str] = field(default_factory=list)
    workers: int = 4


@dataclass(frozen=True)
class OptimConfig:
    """How long and how fast.

    epochs, steps     one of them; steps wins
    batch             pairs per rank in one optimiser step
    micro_batch       pairs per forward pass; null: the whole batch
    grad_cache        with a micro_batch: the loss is over the whole batch; without: over each micro-batch
    """

    epochs: float = 1.0
    steps: int | None = None
    lr: float = 5e-5
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    lr_warmup_steps: int = 100
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    batch: int = 32
    micro_batch: int | None = None
    grad_cache: bool = False
    bf16: bool = True
    gradient_checkpointing: bool = True


@dataclass(frozen=True)
class EvalConfig:
    """A judged BEIR folder on which NDCG@10 is measured while training. queries: another queries.jsonl."""

    folder: str | None = None
    queries: str | None = None
    every: int = 500
    batch: int = 8


@dataclass(frozen=True)
class TrainConfig:
    """One stage. `output` receives checkpoint-STEP folders while it runs and `model` when it is done."""

    output: str = "runs/unnamed"
    after: str | None = None
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    seed: int = 0
    save_every: int = 500
    keep: int = 2
    log_every: int = 10
    report_to: list[str] = field(default_factory=lambda: ["tensorboard"])

    @property
    def result(self) -> Path:
        """Where the finished model lies."""
        return Path(self.output) / "model"

    def with_(self, **changes: Any) -> TrainConfig:
        return replace(self, **changes)


def load_config(path: str | Path) -> TrainConfig:
    """Read, inherit, check."""
    path = Path(path)
    config: TrainConfig = _build(TrainConfig, _read(path, ()), str(path), "")
    _check(config, str(path))
    return config


def read_settings(path: Path) -> dict[str, Any]:
    """What a config file and its bases say, unchecked."""
    return _read(path, ())


def build_settings(kind: Any, content: dict[str, Any], source: str) -> Any:
    """A settings dataclass, every key and type checked."""
    return _build(kind, content, source, "")


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """The content of a file laid over that of its base."""
    if path.resolve() in seen:
        raise ConfigError(f"{path} inherits from itself; take one base: away.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError as error:
        raise ConfigError(f"There is no file {path}; give a training config like configs/paper/warmup.yaml.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML ({str(error).splitlines()[0]}).") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds a {type(content).__name__} instead of settings.")
    if content.get("after"):
        content["after"] = str(path.parent / str(content["after"]))
    base = content.pop("base", None)
    if base is None:
        return content
    return _merge(_read(path.parent / str(base), (*seen, path.resolve())), content)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested settings are merged; everything else, lists too, is replaced.

    >>> _merge({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _build(kind: Any, content: Any, source: str, where: str) -> Any:
    """A dataclass from nested settings, every value checked against its type."""
    if not isinstance(content, dict):
        raise ConfigError(f"{source}: {where or 'the file'} must hold settings, not {content!r}.")
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    values = {}
    for key, value in content.items():
        if key not in known:
            raise ConfigError(
                f"{source} has the unknown key {_path(where, key)!r}; known are {', '.join(sorted(known))}."
            )
        values[key] = _value(hints[key], value, source, _path(where, key))
    return kind(**values)


def _path(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def _value(hint: Any, value: Any, source: str, where: str) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    for option in options:
        if is_dataclass(option) and isinstance(value, dict):
            return _build(option, value, source, where)
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is list and isinstance(value, list):
            return [_value(get_args(option)[0], item, source, where) for item in value]
        if get_origin(option) is dict and isinstance(value, dict):
            inner = get_args(option)[1]
            return {str(key): _value(inner, item, source, _path(where, key)) for key, item in value.items()}
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(option, type) and type(value) is option:
            return value
        if option is float and isinstance(value, str) and _is_number(value):
            return float(value)  # YAML 1.1 reads 5e-4, without a point, as text
    raise ConfigError(f"{source}: {where} must be {_said(hint)}, not {value!r}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _said(hint: Any) -> str:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    names: list[str] = []
    for option in options:
        if get_origin(option) is Literal:
            names += [str(x) for x in get_args(option)]
        elif get_origin(option) is list:
            names.append("a list")
        elif get_origin(option) is dict:
            names.append("names with values")
        else:
            names.append({type(None): "null", int: "a whole number", float: "a number"}.get(option, option.__name__))
    return " or ".join(names)


_ABOVE_ZERO = (
    "loss.temperature", "loss.balance_temperature", "optim.lr", "optim.epochs", "optim.steps", "optim.batch",
    "optim.micro_batch", "eval.every", "eval.batch", "save_every", "keep", "log_every", "model.probes_per_variant",
)  # fmt: skip
_NOT_BELOW_ZERO = (
    "loss.balance", "loss.diversity", "loss.gamma", "model.noise", "data.workers", "optim.lr_warmup_steps",
    "optim.weight_decay", "optim.max_grad_norm", "seed",
)  # fmt: skip


def _check(config: TrainConfig, source: str) -> None:
    for names, least, rule in ((_ABOVE_ZERO, 1e-30, "above 0"), (_NOT_BELOW_ZERO, 0, "0 or more")):
        for name in names:
            value: Any = config
            for part in name.split("."):
                value = getattr(value, part)
            if value is not None and not least <= value < float("inf"):
                raise ConfigError(f"{source}: {name} must be {rule}, not {value}.")
    optim, model = config.optim, config.model
    if optim.grad_cache and optim.micro_batch is None:
        raise ConfigError(f"{source}: optim.grad_cache needs optim.micro_batch, the pairs of one forward pass.")
    if optim.micro_batch and optim.batch % optim.micro_batch:
        raise ConfigError(
            f"{source}: optim.batch ({optim.batch}) must be a multiple of micro_batch ({optim.micro_batch})."
        )
    if model.lora is not None and model.vision:
        raise ConfigError(
            f"{source}: model.vision needs lora: null, because an adapter does not hold the vision tower."
        )
    if model.fresh and model.lora is not None:
        raise ConfigError(
            f"{source}: model.fresh needs lora: null; an adapter over random weights has no base to load."
        )
    if model.fresh and not model.vision:
        raise ConfigError(f"{source}: model.fresh needs vision: true; a random vision tower would stay random.")
    if config.after and model.source:
        raise ConfigError(f"{source}: give model.source or after, not both; after starts from that stage's result.")
