"""The fast path of a GPU equals the reference: on the CPU, plain and through torch.compile's graph capture."""

from __future__ import annotations

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import PageBatch, VarsConfig, VarsDoc
from varsdoc.model.fast import FastEncoder, pieces
from varsdoc.model.fast.layout import runs_of
from varsdoc.model.fast.weights import ALIGN, vision_block

QUESTIONS = ["one", "a question that is a little longer", "two words", "a question that is a little longer"]


@pytest.fixture(autouse=True)
def forget_compiled() -> None:
    torch._dynamo.reset()


def packed(model: VarsDoc, batch: PageBatch, **options: object) -> torch.Tensor:
    """The fast path's vectors, laid out like the reference's: (B, K, M, dim), left-padded."""
    fast = FastEncoder(model, **options)  # type: ignore[arg-type]
    vectors = fast.pages(batch.pixels, batch.grids)
    out = torch.zeros(len(batch), len(vectors), batch.mask.shape[1], vectors.shape[2])
    for page, part in enumerate(vectors.split(list(fast.layout(batch.grids).lengths), dim=1)):
        out[page, :, batch.mask[page]] = part
    return out


@pytest.mark.parametrize(("variants", "branch_layers"), [(1, 0), (3, 0), (1, 2), (3, 1), (5, 4), (3, 2)])
@torch.no_grad()
def test_equals_the_reference_for_mixed_pages(variants: int, branch_layers: int) -> None:
    model = tiny.model(variants, branch_layers)
    batch = tiny.batch(model)
    expected = model.forward_pages(batch, "reference").vectors
    torch.testing.assert_close(packed(model, batch), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("sizes", [((140, 224),), ((280, 140), (280, 140)), ((28, 280), (56, 308), (28, 280))])
@torch.no_grad()
def test_equals_the_reference_for_one_alike_and_narrow_pages(sizes: tuple[tuple[int, int], ...]) -> None:
    model = tiny.model(2, 2, probes_per_variant=2)
    batch = tiny.batch(model, sizes)
    expected = model.forward_pages(batch, "reference").vectors
    torch.testing.assert_close(packed(model, batch), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_equals_the_reference_when_captured_by_torch_compile() -> None:
    model = tiny.model(2, 2)
    for sizes in (tiny.PAGE_SIZES[:2], tiny.PAGE_SIZES[2:]):  # two row counts: sizes are kept open
        batch = tiny.batch(model, sizes)
        expected = model.forward_pages(batch, "reference").vectors
        found = packed(model, batch, compiled=True, backend="eager")
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_pieces_compile_whole_and_not_again_for_every_block_or_size() -> None:
    captured = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        captured.append(len(inputs))
        return graph.forward

    model = tiny.model(1, 0)
    weights = [vision_block(block) for block in model.backbone.visual.blocks]
    whole = torch.compile(pieces.vision_out, backend=backend, fullgraph=True)
    for rows in (12, 20, 7, 33):
        for w in weights:
            x, attended = torch.randn(2, rows, 32)
            torch.testing.assert_close(whole(x, attended, w), pieces.vision_out(x, attended, w))
    assert len(captured) == 2, "once for the first size, once with the size left open"


@torch.no_grad()
def test_queries_equal_the_reference_in_any_company() -> None:
    model = tiny.model(3, 2)
    ids = [model.processor.query_ids(text) for text in QUESTIONS]
    batch = model.processor.queries(ids)
    expected = model.forward_queries(batch, "reference")
    fast = FastEncoder(model)
    together = fast.queries(ids)
    for i, vectors in enumerate(together):
        torch.testing.assert_close(vectors, expected.vectors[i, expected.mask[i]], atol=1e-5, rtol=0)
        torch.testing.assert_close(fast.queries([ids[i]])[0], vectors, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_second_model_of_other_widths_leaves_no_width_open() -> None:
    """Kernels compiled for any width are slower; only rows, pages and branches may be open."""
    open_sizes: list[tuple[str, tuple[object, ...]]] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        for node in graph.graph.nodes:
            found = node.meta.get("example_value") if node.op == "placeholder" else None
            if isinstance(found, torch.Tensor) and not all(isinstance(size, int) for size in found.shape):
                open_sizes.append((node.name, tuple(found.shape)))
        return graph.forward

    wide = tiny.backbone_config()
    text, vision = wide.text_config, wide.vision_config
    text.hidden_size, text.num_attention_heads, text.intermediate_size = 160, 5, 128
    text.num_key_value_heads, text.rope_parameters["mrope_section"] = 1, [4, 6, 6]
    vision.hidden_size, vision.num_heads, vision.intermediate_size, vision.out_hidden_size = 96, 3, 80, 160
    second = VarsDoc(VarsConfig(wide, variants=3, branch_layers=2, dim=24), tiny.tokenizer())
    tiny.randomise(second)
    for model in (tiny.model(3, 2), second):
        open_sizes.clear()
        fast = FastEncoder(model, compiled=True, backend=backend)  # type: ignore[arg-type]
        for sizes in (((140, 224),), ((84, 84), (84, 84)), ((112, 140),)):
            batch = tiny.batch(model, sizes)
            expected = model.forward_pages(batch, "reference").vectors
            found = fast.pages(batch.pixels, batch.grids).unflatten(1, (len(sizes), -1)).transpose(0, 1)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert open_sizes
    for name, shape in open_sizes:
        if name != "l_lse_":  # (pages, heads, rows)
            assert isinstance(shape[-1], int), (name, shape)
        if len(shape) == 4:
            assert isinstance(shape[1], int), (name, shape)


@torch.no_grad()
def test_a_question_padded_at_its_end_is_the_same() -> None:
    """What a CUDA graph of a fixed length relies on."""
    model = tiny.model(1, 0)
    fast = FastEncoder(model)
    ids = model.processor.query_ids("three words here")
    padded = torch.tensor([*ids, *[0] * 9])
    found = fast.query_rows(padded, torch.arange(len(padded)), runs_of([len(padded)]))[: len(ids)]
    torch.testing.assert_close(found, fast.queries([ids])[0], atol=1e-5, rtol=0)


def test_widths_are_aligned_and_the_padding_is_zero() -> None:
    model = tiny.model()
    w = vision_block(model.backbone.visual.blocks[0])
    assert w.gate_up.shape[0] % (2 * ALIGN) == 0
    assert w.down.shape[1] % ALIGN == 0
    assert w.down[:, 48:].abs().max() == 0


def test_refuses_where_a_gradient_is_wanted() -> None:
    model = tiny.model().set_trainable(None)
    batch = tiny.batch(model)
    fast = FastEncoder(model)
    with pytest.raises(RuntimeError, match="fast path has no gradient"):
        fast.pages(batch.pixels, batch.grids)


@torch.no_grad()
def test_prepare_is_used_by_encoding_and_follows_the_weights() -> None:
    model, plain = tiny.model(3, 2), tiny.model(3, 2)
    pages = [tiny.page(140, 112, i) for i in range(3)] + [tiny.page(84, 84, 9)]
    assert model.prepare() is model
    assert model.fast is not None
    for a, b in zip(model.encode_pages(pages), plain.encode_pages(pages), strict=True):
        torch.testing.assert_close(a.variants, b.variants, atol=1e-5, rtol=0)
        assert (a.grid, a.image_start) == (b.grid, b.image_start)
    for model_ in (model, plain):
        model_.backbone.language_model.layers[0].mlp.down_proj.weight.mul_(1.5)
    for a, b in zip(model.encode_queries(QUESTIONS), plain.encode_queries(QUESTIONS), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
    model.to_device("cpu", "bfloat16")
    assert model.fast is None, "other weights"


def test_prepare_refuses_what_it_cannot_run() -> None:
    with pytest.raises(ConfigError, match="int8"):
        tiny.model().to_device("cpu", "int8").prepare()


def test_moved_weights_leave_no_fast_path_behind() -> None:
    """What was made ready holds copies, and graphs that read where the weights were."""
    model = tiny.model(2, 1).prepare()
    assert model.prepared() is not None
    model.convert(torch.float64)
    assert model.prepared() is None
    model.prepare().to(torch.float32)
    assert model.prepared() is None
