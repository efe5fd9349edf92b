"""What is trained: LoRA on the language blocks through PEFT, probes and heads in full.

The paper lists probes and heads under LoRA too. At their size (10 thousand and 1.6 million parameters at 3B) training
them in full is the same thing and simpler: no rank to choose, and they are saved as what they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor, nn

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.model.config import LoraSettings
from varsdoc.model.names import rename
from varsdoc.model.sources import first_line, read_json, require_same_tensors

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc

TARGETS = r".*language_model\.layers\.\d+\.(self_attn|mlp)\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
ADAPTER = "default"
PREFIX = "base_model.model."


def set_trainable(model: VarsDoc, lora: LoraSettings | None = None, vision: bool = False) -> None:
    """Choose what gradients reach: everything (lora None) or LoRA + probes + heads; vision only on request.

    An adapter that is there goes on where its settings are the ones asked for; lora None folds it in first.
    """
    if lora is not None and vision:
        raise ConfigError("LoRA with vision=True is refused: an adapter does not hold the vision tower; use lora None.")
    if lora is None:
        merge_lora(model.backbone)
    elif not has_lora(model.backbone):
        add_lora(model.backbone, lora)
    else:
        _require_same_settings(adapter_config(model.backbone), lora)
    for name, parameter in model.named_parameters():
        if ".visual." in name:
            parameter.requires_grad_(vision)
        elif name.startswith("backbone."):
            parameter.requires_grad_("lora_" in name if lora is not None else True)
        else:
            parameter.requires_grad_(True)


def _require_same_settings(have: LoraConfig, wanted: LoraSettings) -> None:
    if (have.r, have.lora_alpha, have.lora_dropout) != (wanted.r, wanted.alpha, wanted.dropout):
        raise ConfigError(
            f"The model has an adapter with r={have.r}, alpha={have.lora_alpha}, dropout={have.lora_dropout}, and "
            f"r={wanted.r}, alpha={wanted.alpha}, dropout={wanted.dropout} was asked for; give the same or merge it."
        )


def trainable_parameters(model: nn.Module) -> tuple[int, int]:
    """How many parameters are trained, and how many there are."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(n for n, trained in sizes if trained), sum(n for n, _ in sizes)


def has_lora(module: nn.Module) -> bool:
    return any(isinstance(child, LoraLayer) for child in module.modules())


def add_lora(backbone: nn.Module, settings: LoraSettings) -> None:
    """Inject LoRA in place; the weights below are frozen by PEFT."""
    if settings.r < 1 or not 0 <= settings.dropout < 1:
        raise ConfigError(f"LoRA needs r >= 1 and 0 <= dropout < 1, not r={settings.r}, dropout={settings.dropout}.")
    if has_lora(backbone):
        raise ConfigError("The model has a LoRA adapter already; merge it with merge_lora() before adding another.")
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        init_lora_weights=settings.init,
        target_modules=TARGETS,
        bias="none",
    )
    _inject(backbone, config)


def _inject(module: nn.Module, config: LoraConfig) -> None:
    """PEFT's new layers start in training mode, with dropout, whatever mode the model is in: bring them in line."""
    training = module.training
    inject_adapter_in_model(config, module, ADAPTER)
    module.train(training)


def merge_lora(backbone: nn.Module) -> None:
    """Fold the adapter into the weights and remove it."""
    for name, module in list(backbone.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(backbone.get_submodule(parent), child, module.get_base_layer())
    if hasattr(backbone, "peft_config"):
        del backbone.peft_config


def adapter_config(backbone: Any) -> LoraConfig:
    return backbone.peft_config[ADAPTER]


def adapter_state(backbone: nn.Module) -> dict[str, Tensor]:
    """The adapter's tensors under the names that PEFT writes to disk.

    Embeddings are named as not saved: left to choose, PEFT would look up the base model on the network.
    """
    state = get_peft_model_state_dict(backbone, adapter_name=ADAPTER, save_embedding_layers=False)
    return {PREFIX + name.removeprefix(PREFIX): tensor.contiguous() for name, tensor in state.items()}


def load_adapter(module: nn.Module, folder: Path, state: dict[str, Tensor]) -> None:
    """Inject the adapter in `folder` below `module` and fill it; which layers it has is read off its tensors."""
    plain = {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}
    config = read_lora_config(folder)
    written = config.target_modules
    # By full name, off the tensors: patterns over the names of another version would miss layers in silence.
    config.target_modules = {name.partition(".lora_")[0] for name in plain}
    try:
        _inject(module, config)
    except Exception as error:  # PEFT raises a dozen types for what does not fit
        raise CheckpointError(f"{folder} does not fit its base ({first_line(error)}).") from error
    fill_adapter(module, folder, plain)
    config.target_modules = written


def fill_adapter(module: nn.Module, folder: Path, state: dict[str, Tensor]) -> None:
    """Put stored tensors into the adapter that is there; every one must find its place."""
    plain = {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}
    expected = {name.removeprefix(PREFIX): tensor for name, tensor in adapter_state(module).items()}
    require_same_tensors(plain, expected, str(folder))
    set_peft_model_state_dict(module, plain, adapter_name=ADAPTER)


def read_lora_config(folder: Path) -> LoraConfig:
    """adapter_config.json, checked to be LoRA. Patterns by layer name are renamed with the layers."""
    kind = read_json(folder / "adapter_config.json").get("peft_type")
    if kind != "LORA":
        raise CheckpointError(f"{folder} holds an adapter of type {kind!r}; varsdoc reads LoRA.")
    try:
        config = LoraConfig.from_pretrained(str(folder))
    except Exception as error:
        raise CheckpointError(f"{folder / 'adapter_config.json'} cannot be read ({first_line(error)}).") from error
    config.inference_mode = False
    config.modules_to_save = None
    config.rank_pattern = {rename(key.lstrip("^")): r for key, r in config.rank_pattern.items()}
    config.alpha_pattern = {rename(key.lstrip("^")): a for key, a in config.alpha_pattern.items()}
    return config
