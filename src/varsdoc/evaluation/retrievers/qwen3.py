"""The two Qwen3-VL rows of the paper: ColQwen3 (SauerkrautLM; many vectors) and eager-embed (one vector)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import Qwen3VLConfig, Qwen3VLModel

from varsdoc.errors import CheckpointError
from varsdoc.evaluation.retrievers.foreign import Foreign, dropped, unit
from varsdoc.evaluation.retrievers.qwen_inputs import QwenInputs
from varsdoc.model.sources import read_json, read_tensors, weight_files

_HEAD = "custom_text_proj."


class _Qwen3(Foreign):
    """A Qwen3-VL without its language-model head, under the tensor names of any release."""

    types = ("qwen3_vl", "colqwen3")
    head: nn.Linear | None = None
    inputs: QwenInputs

    def load(self) -> None:
        content = read_json(self.folder / "config.json") | {"model_type": "qwen3_vl"}
        self.model = Qwen3VLModel(Qwen3VLConfig.from_dict(content))
        state = {_plain(name): tensor for name, tensor in read_tensors(weight_files(self.folder)).items()}
        state = {name: tensor for name, tensor in state.items() if not name.startswith("lm_head.")}
        head = {name.removeprefix(_HEAD): state.pop(name) for name in list(state) if name.startswith(_HEAD)}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        wrong = [*(name for name in missing if "inv_freq" not in name), *unexpected]
        if wrong:
            raise CheckpointError(f"{self.folder} does not fit a Qwen3-VL: tensor {wrong[0]}.")
        if head:
            width, hidden = head["weight"].shape
            self.head = nn.Linear(hidden, width, bias="bias" in head)
            self.head.load_state_dict(head)
            self.head.to(self.device, self.dtype)

    def token_cap(self) -> int | None:
        return self.inputs.token_cap

    def states(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """States after the final norm (B, M, hidden), and the mask."""
        moved = self.to_device(inputs)
        return self.model(**moved, use_cache=False).last_hidden_state, moved["attention_mask"]


class ColQwen3(_Qwen3):
    """ColQwen2.5's recipe on Qwen3-VL: the same page prompt and augmentation, a linear head, unit vectors."""

    def load(self) -> None:
        super().load()
        if self.head is None:
            raise CheckpointError(f"{self.folder} has no custom_text_proj; it is not a ColQwen3.")
        self.inputs = QwenInputs(self.folder, self.cap)

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        return self._project(self.inputs.pages(images))

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        return self._project(self.inputs.queries(texts))

    def _project(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        states, mask = self.states(inputs)
        assert self.head is not None
        return dropped(unit(self.head(states)), mask)


class EagerEmbed(_Qwen3):
    """One vector: the last state of the chat form of the input, pages resized to a square of 784 pixels."""

    SIDE = 784

    def load(self) -> None:
        super().load()
        self.inputs = QwenInputs(self.folder, None)

    def token_cap(self) -> int | None:
        return (self.SIDE // self.inputs.cell) ** 2

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        # The image processor rounds the side to whole cells.
        square = [image.resize((self.SIDE, self.SIDE), resample=3) for image in images]
        prompt = _chat("<|vision_start|><|image_pad|><|vision_end|>")
        return self._last(self.inputs.pages(square, [prompt] * len(square)))

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        return self._last(self.inputs.texts([_chat(f"Query: {text}") for text in texts]))

    def _last(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        states, _ = self.states(inputs)
        return [vector[None] for vector in unit(states[:, -1])]  # left-padded: the last is never padding


def _chat(content: str) -> str:
    return f"<|im_start|>user\n{content}<|im_end|>\n<|endoftext|>"


def _plain(name: str) -> str:
    """model.visual.* and model.language_model.* of the generator's class, visual.* and language_model.* of ours."""
    return name.removeprefix("base_model.model.").removeprefix("model.")
