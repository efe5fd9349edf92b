"""What a VaRS-Doc model is made of: a backbone configuration plus the settings of the paper and of ColQwen2.5.

Everything that changes an embedding stands here and is saved with the checkpoint, the query prefix and the number of
augmentation tokens included: ColQwen2.5 releases differ in them, and results silently change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from transformers import Qwen2_5_VLConfig

from varsdoc.errors import ConfigError

FORMAT = 1
MOST_VARIANTS = 256
PAGE_PROMPT = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|><|endoftext|>"
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

Heads = Literal["separate", "shared"]


@dataclass(frozen=True)
class VarsConfig:
    """A backbone plus K, n, heads, prompts and limits. Wrong values are refused when it is made.

    variants            K: readings of one page
    branch_layers       n: how many of the last blocks are branched; 0 appends no probe at all
    probes_per_variant  probes that one variant sees; 1 in the paper. With one variant and several probes this is the
                        ablation "probing": all probes visible to the page in one stream
    heads               "separate": one projection per variant and one for queries; "shared": one for all, as in
                        ColQwen2.5, the warm-up, and the ablation "branched"
    dim                 width of an embedding
    max_visual_tokens   most cells of 28 x 28 pixels that a page may have; larger pages are scaled down
    level_print         degrees, anticlockwise: print that runs at one of these angles is also set level below its page
                        (model.levelling), for a model that reads level print alone
    turn_pages          whether a page that may lie on its side or upside down is encoded in each way, and kept as the
                        model reads it best (model.orientation)
    light_paper         whether a page of light print on dark paper is inverted (model.paper)
    trained             whether the probes and heads have seen training; loading says so when they have not
    """

    backbone: Qwen2_5_VLConfig = field(repr=False)
    variants: int = 5
    branch_layers: int = 4
    probes_per_variant: int = 1
    heads: Heads = "separate"
    dim: int = 128
    query_prefix: str = "Query: "
    query_augmentation: int = 10
    augmentation_token: str = "<|endoftext|>"
    page_prompt: str = PAGE_PROMPT
    max_query_tokens: int = 1024
    min_visual_tokens: int = 4
    max_visual_tokens: int = 768
    image_mean: tuple[float, float, float] = CLIP_MEAN
    image_std: tuple[float, float, float] = CLIP_STD
    level_print: tuple[int, ...] = ()
    turn_pages: bool = False
    light_paper: bool = False
    trained: bool = False

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            _require(isinstance(getattr(self, name), kind), f"{name} must be {_SAID[kind]}", self, name)
        _require(len(_as_tuple(self.image_mean)) == 3, "image_mean must be three positive numbers", self, "image_mean")
        _require(len(_as_tuple(self.image_std)) == 3, "image_std must be three positive numbers", self, "image_std")
        for name in _POSITIVE:
            _require(_is_int(getattr(self, name)) and getattr(self, name) >= 1, f"{name} must be 1 or more", self, name)
        _require(
            _is_int(self.branch_layers) and 0 <= self.branch_layers <= self.blocks,
            f"branch_layers must lie between 0 and the backbone's {self.blocks} blocks",
            self,
            "branch_layers",
        )
        _require(
            _is_int(self.query_augmentation) and self.query_augmentation >= 0,
            "query_augmentation must be 0 or more",
            self,
            "query_augmentation",
        )
        _require(self.heads in ("separate", "shared"), 'heads must be "separate" or "shared"', self, "heads")
        _require(
            self.max_visual_tokens >= self.min_visual_tokens,
            f"max_visual_tokens must be at least min_visual_tokens ({self.min_visual_tokens})",
            self,
            "max_visual_tokens",
        )
        _require(
            self.page_prompt.count("<|image_pad|>") == 1,
            "page_prompt must contain <|image_pad|> exactly once",
            self,
            "page_prompt",
        )
        _require(
            self.query_augmentation < self.max_query_tokens,
            f"max_query_tokens must be above query_augmentation ({self.query_augmentation})",
            self,
            "max_query_tokens",
        )
        _require(
            isinstance(self.level_print, list | tuple)
            and all(_is_int(a) and 0 < a < 360 for a in self.level_print)
            and len({*self.level_print}) == len(self.level_print),
            "level_print must be whole degrees between 1 and 359, each once",
            self,
            "level_print",
        )
        object.__setattr__(self, "level_print", tuple(self.level_print))
        for name in ("image_mean", "image_std"):
            object.__setattr__(self, name, _as_tuple(getattr(self, name)))
        _require(self.variants <= MOST_VARIANTS, f"variants must be at most {MOST_VARIANTS}", self, "variants")

    @property
    def blocks(self) -> int:
        """L, the number of language blocks."""
        return int(self.backbone.text_config.num_hidden_layers)

    @property
    def hidden_size(self) -> int:
        return int(self.backbone.text_config.hidden_size)

    @property
    def probes(self) -> int:
        """How many probe tokens end a page's sequence."""
        return self.variants * self.probes_per_variant if self.branch_layers else 0

    @property
    def patch_size(self) -> int:
        return int(self.backbone.vision_config.patch_size)

    @property
    def merge_size(self) -> int:
        return int(self.backbone.vision_config.spatial_merge_size)

    @property
    def cell_size(self) -> int:
        """Side of the square of pixels behind one visual token."""
        return self.patch_size * self.merge_size

    def with_(self, **changes: Any) -> VarsConfig:
        """A copy with some settings changed.

        >>> from varsdoc.model import nano_config
        >>> nano_config().with_(variants=0)
        Traceback (most recent call last):
        varsdoc.errors.ConfigError: variants must be 1 or more, not 0.
        """
        unknown = sorted(set(changes) - {f.name for f in fields(self)})
        if unknown:
            raise ConfigError(f"There is no setting {unknown[0]!r} in a varsdoc configuration.")
        return replace(self, **changes)

    def settings(self) -> dict[str, Any]:
        """Our own settings as they are written to varsdoc.json; the backbone's go to config.json."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "backbone"}
        # Settings of before know nothing of these, nor do their hashes.
        for later in ("level_print", "turn_pages", "light_paper"):
            if not own[later]:
                del own[later]
        return {"format": FORMAT, **own}

    @classmethod
    def from_settings(
        cls, backbone: Qwen2_5_VLConfig, settings: dict[str, Any], source: str = "varsdoc.json"
    ) -> VarsConfig:
        """The inverse of `settings`. Unknown keys are an error: they would silently change embeddings."""
        settings = dict(settings)
        made_by = settings.pop("format", None)
        if made_by != FORMAT:
            raise ConfigError(f"{source} has format {made_by!r}, and this version of varsdoc reads format {FORMAT}.")
        unknown = sorted(set(settings) - {f.name for f in fields(cls)})
        if unknown:
            raise ConfigError(f"{source} has the unknown setting {unknown[0]!r}; a newer varsdoc may have written it.")
        try:
            return cls(backbone, **settings)
        except TypeError as error:
            raise ConfigError(f"{source} has a setting of the wrong type: {error}.") from error


_POSITIVE = ("variants", "probes_per_variant", "dim", "max_query_tokens", "min_visual_tokens", "max_visual_tokens")


_TYPES: dict[str, type] = {
    "trained": bool,
    "turn_pages": bool,
    "light_paper": bool,
    "query_prefix": str,
    "augmentation_token": str,
    "page_prompt": str,
    "heads": str,
}
_SAID = {bool: "true or false", str: "text"}


def _as_tuple(values: Any) -> tuple[float, ...]:
    """Positive numbers; empty where they are not."""
    numbers = [x for x in values if isinstance(x, int | float) and x > 0] if isinstance(values, list | tuple) else []
    return tuple(float(x) for x in numbers)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, rule: str, config: VarsConfig, name: str) -> None:
    if not holds:
        raise ConfigError(f"{rule}, not {getattr(config, name)!r}.")


@dataclass(frozen=True)
class LoraSettings:
    """LoRA on the language blocks, as in the paper. Probes and heads are trained in full beside it."""

    r: int = 32
    alpha: int = 32
    dropout: float = 0.1
    init: bool | Literal["gaussian"] = "gaussian"
