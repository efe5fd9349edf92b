"""The same equalities on a CUDA device. Run on a GPU machine: PYTHONPATH=src:tests python -m pytest -m gpu tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import tiny
from varsdoc.scoring.device import DevicePages

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]


@pytest.fixture(autouse=True)
def exact_float32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize(("variants", "branch_layers"), [(1, 0), (1, 2), (3, 1), (5, 4)])
@torch.no_grad()
def test_paths_agree_on_the_device_and_with_the_cpu(variants: int, branch_layers: int) -> None:
    cpu = tiny.model(variants, branch_layers)
    expected = cpu.forward_pages(tiny.batch(cpu), "reference").vectors
    model = tiny.model(variants, branch_layers).to_device("cuda", "float32")
    batch = tiny.batch(model).to("cuda")
    for path in ("reference", "inference", "training"):
        actual = model.forward_pages(batch, path).vectors.cpu()
        torch.testing.assert_close(actual, expected, atol=2e-5, rtol=0, msg=path)


@torch.no_grad()
def test_bfloat16_paths_agree_within_its_noise() -> None:
    model = tiny.model(5, 2).to_device("cuda")
    assert model.dtype == torch.bfloat16, "bfloat16 is the default on a GPU"
    batch = tiny.batch(model).to("cuda")
    reference = model.forward_pages(batch, "reference").vectors
    for path in ("inference", "training"):
        cosine = torch.nn.functional.cosine_similarity(model.forward_pages(batch, path).vectors, reference, dim=-1)
        assert cosine[reference.norm(dim=-1) > 0].min() > 0.97


def test_training_gradients_agree_with_the_reference() -> None:
    model = tiny.model(3, 2).to_device("cuda", "float32").set_trainable(None, vision=True)
    batch = tiny.batch(model).to("cuda")
    gradients = []
    for path in ("reference", "training"):
        model.zero_grad()
        model.forward_pages(batch, path).vectors.cumsum(-1).square().sum().backward()  # type: ignore[arg-type]
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    for name, expected in gradients[0].items():
        scale = expected.abs().max().clamp(min=1e-3)
        torch.testing.assert_close(gradients[1][name] / scale, expected / scale, atol=1e-4, rtol=0, msg=name)


@torch.no_grad()
def test_the_fast_path_agrees_with_the_cpu_plain_and_compiled() -> None:
    cpu = tiny.model(3, 2)
    pages = [tiny.page(h, w, i) for i, (h, w) in enumerate(tiny.PAGE_SIZES * 3)]
    questions = ["one", "a question that is longer", "two words"]
    expected, asked = cpu.encode_pages(pages), cpu.encode_queries(questions)
    model = tiny.model(3, 2).to_device("cuda", "float32")
    for compiled in (False, True):
        model.prepare(compile=compiled)
        for a, b in zip(model.encode_pages(pages, batch_tokens=200), expected, strict=True):
            torch.testing.assert_close(a.variants, b.variants, atol=1e-4, rtol=0)
        for question, b in zip(questions, asked, strict=True):  # one at a time: through the graph
            torch.testing.assert_close(model.encode_queries([question])[0], b, atol=1e-4, rtol=0)
        for a, b in zip(model.encode_queries(questions), asked, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_encoding_and_scoring_end_on_the_cpu() -> None:
    model = tiny.model(3, 2).to_device("cuda", "float32")
    pages = model.encode_pages([tiny.page(140, 112, i) for i in range(5)])
    queries = model.encode_queries(["one", "two words"])
    cpu = tiny.model(3, 2)
    torch.testing.assert_close(
        model.score(queries, pages).variants,
        cpu.score(
            cpu.encode_queries(["one", "two words"]), cpu.encode_pages([tiny.page(140, 112, i) for i in range(5)])
        ).variants,
        atol=1e-3,
        rtol=0,
    )


def test_searches_replayed_from_graphs_are_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    pages = DevicePages("binary", variants=2, dim=128, device="cuda")
    summaries = DevicePages("int8", variants=1, dim=128, device="cuda")
    for _ in range(60):
        pages.add_codes(torch.randint(0, 256, (2 * 30, 16), dtype=torch.uint8, generator=generator), None, 30)
        vectors = torch.randint(-127, 128, (8, 128), dtype=torch.int8, generator=generator)
        summaries.add_codes(vectors, torch.full((8,), 1 / 127, dtype=torch.float16), 8)
    for tokens in (5, 17, 30, 17, 200):
        query = torch.randn(tokens, 128, generator=generator)
        among = np.sort(summaries.best(query, 20))
        pairs = (pages.search(query, 5), pages.search(query, 5, np.arange(len(pages))))
        in_two = (pages.search_in_two(query, 5, summaries, 20), pages.search(query, 5, among))
        for found, expected in (pairs, in_two):
            assert found[0].tolist() == expected[0].tolist()
            torch.testing.assert_close(found[1:], expected[1:])
    assert pages.replays is not None, "no graph failed"
    pages.add_codes(torch.full((2 * 30, 16), 255, dtype=torch.uint8), None, 30)
    assert pages.search(torch.ones(3, 128), 1)[0].tolist() == [60], "the new page"


def test_threads_ask_and_search_through_the_same_graphs() -> None:
    """Captures beside other threads' work, and one set of buffers for all of them: everyone gets their own answer."""
    model = tiny.model(3, 2).to_device("cuda", "float32").prepare()
    pages = DevicePages("float16", variants=3, dim=128, device="cuda")
    pages.add_vectors([torch.nn.functional.normalize(torch.randn(3, 40, 128), dim=-1) for _ in range(50)])
    wider = 128 // model.config.dim  # the kernels take no vectors as short as the tiny model's
    questions = [" ".join(["word", "another", "third"][i % 3 :] * (1 + i % 5)) for i in range(60)]
    several = model.encode_queries(questions)  # packed: no graph
    every = np.arange(len(pages))  # rows that are named: no graph either
    expected = [pages.search(vectors.repeat(1, wider), 4, every)[0].tolist() for vectors in several]

    def ask(i: int) -> tuple[torch.Tensor, list[int]]:
        with torch.inference_mode(i % 2 == 0):
            vectors = model.encode_queries([questions[i]])[0]
            if i % 7 == 0:
                model.encode_pages([tiny.page(140, 112, i)])
            return vectors, pages.search(vectors.repeat(1, wider), 4)[0].tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(len(questions))))
    for (vectors, rows), wanted, best in zip(found, several, expected, strict=True):
        torch.testing.assert_close(vectors, wanted, atol=1e-4, rtol=0)
        assert rows == best
    assert pages.replays is not None, "no graph failed"
    fast = model.prepared()
    assert fast is not None
    assert fast.graphs is not None, "no graph failed"
