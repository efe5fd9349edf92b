"""The reading stage: targets point at ink, losses are right, pages keep their words in every shape, a piece runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.generator import PageStream, Word
from varsdoc.training.plan import plan
from varsdoc.training.reading.config import ReadConfig, load_read_config
from varsdoc.training.reading.losses import alignment, best_similarity, found, shown_alignment
from varsdoc.training.reading.muon import BatchedMuon
from varsdoc.training.reading.pages import QUERIES, SHAPES, Chunk, Maker, cut_to_shape, nearest_shape
from varsdoc.training.reading.pool import Pool
from varsdoc.training.reading.printed import PRINTED, Speller, Spelling, printed_tokens, transcripts
from varsdoc.training.reading.real import real_pages
from varsdoc.training.reading.stage import build, read_stage
from varsdoc.training.reading.step import query_batch
from varsdoc.training.reading.targets import CELLS, TOKENS, Grid, token_targets, tokenise
from varsdoc.training.stages import train


def test_a_token_is_taught_the_cells_in_which_its_word_has_ink() -> None:
    tokenizer, config = tiny.tokenizer(), tiny.model().config
    stream = PageStream(seed=2, layouts={"running": 1, "table": 1, "plot": 1})
    taught = inked = 0
    for i in range(6):
        sample = stream[i]
        shape = nearest_shape(*sample.image.shape[:2])
        rows, cols = SHAPES[shape]
        pixels = cut_to_shape(sample.image, shape, config).reshape(rows * cols, 4, -1)
        for query in sample.queries:
            _, offsets = tokenise(tokenizer, query.text, config)
            targets = token_targets(
                sample.words,
                query.links,
                Grid(rows, cols, *sample.image.shape[:2]),
                offsets,
                len(config.query_prefix),
            )
            assert targets.shape == (len(offsets), CELLS)
            assert targets.max() < rows * cols
            assert (targets[:2] == -1).all(), "the prefix is printed nowhere"
            for row in targets:
                cells = row[row >= 0]
                taught += len(cells)
                inked += sum(int(np.ptp(pixels[cell].astype(int)) > 20) for cell in cells)
    assert taught > 200
    assert inked / taught > 0.97


def test_alignment_and_found_against_their_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, cells = torch.randn(2, 3, 4, 8, generator=generator), torch.randn(2, 10, 8, generator=generator)
    targets = torch.full((2, 3, 4, 2), -1)
    targets[0, 1, 2] = torch.tensor([3, 5])
    targets[1, 0, 0] = torch.tensor([9, -1])
    first = (2.0 * queries[0, 1, 2] @ cells[0].T).softmax(0)[[3, 5]].sum().log()
    second = (2.0 * queries[1, 0, 0] @ cells[1].T).softmax(0)[9].log()
    similarity, _ = best_similarity(queries, cells[:, None], targets[..., 0] >= 0)
    assert alignment(similarity, targets, 2.0).item() == pytest.approx(-(first + second).item() / 2, abs=1e-5)
    hits = [(queries[0, 1, 2] @ cells[0].T).argmax() in (3, 5), (queries[1, 0, 0] @ cells[1].T).argmax() == 9]
    assert found(similarity, targets).item() == pytest.approx(sum(map(int, hits)) / 2)


def test_nothing_taught_costs_nothing_and_has_a_finite_gradient() -> None:
    for taught in (
        lambda s: alignment(s, torch.full((1, 1, 3, 2), -1), 20.0),
        lambda s: shown_alignment(s, torch.zeros(1, 1, 3, 5, dtype=torch.bool), 20.0),
    ):
        similarity = torch.randn(1, 1, 3, 5, requires_grad=True)
        loss = taught(similarity)
        loss.backward()
        assert loss.item() == 0
        assert similarity.grad is not None
        assert torch.isfinite(similarity.grad).all()


def test_right_padded_ids_become_the_batch_that_the_processor_makes() -> None:
    model = tiny.model(1, 0, heads="shared")
    rows = [model.processor.query_ids(text) for text in ("one", "a longer question about income")]
    ids = torch.full((2, TOKENS), -1, dtype=torch.int16)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    ours, theirs = query_batch(ids), model.processor.queries(rows)
    with torch.no_grad():
        a, b = model.forward_queries(ours), model.forward_queries(theirs)
    for i in range(2):
        torch.testing.assert_close(a.vectors[i][a.mask[i]], b.vectors[i][b.mask[i]], atol=1e-5, rtol=0)


def test_chunks_hold_pages_queries_and_targets_of_one_shape() -> None:
    model = tiny.model(1, 0, heads="shared")
    maker = Maker(PageStream(seed=1, layouts={"plot": 1}), model.config, model.processor.tokenizer.to_str())
    chunk = next(maker.chunks(0, 1, 0))
    rows, cols = SHAPES[chunk.shape]
    assert chunk.pixels.shape[:2] == (8, rows * cols * 4)
    assert chunk.ids.shape == (8, QUERIES, TOKENS)
    assert (chunk.ids >= 0).any(2).all()
    assert (chunk.targets >= 0).any()
    again = next(maker.chunks(0, 1, 0))
    assert np.array_equal(chunk.pixels, again.pixels)
    assert np.array_equal(chunk.targets, again.targets)


def test_the_pool_replaces_its_oldest_pages_and_draws_each_page_with_its_own_queries() -> None:
    shape = 2
    rows, cols = SHAPES[shape]

    def chunk(number: int) -> Chunk:
        pixels = np.full((2, rows * cols * 4, 196), number, np.uint8)
        ids = np.full((2, QUERIES, TOKENS), number, np.int16)
        targets = np.full((2, QUERIES, TOKENS, CELLS), number, np.int16)
        return Chunk(
            shape, pixels, ids, targets, np.array([number, number]), np.full((2, PRINTED, 3), number, np.int32)
        )

    pool = Pool({shape: 6}, torch.device("cpu"))
    for number in range(5):
        pool.add(chunk(number))
    assert pool.filled(shape) == 6
    assert sorted(set(pool.rings[shape].page.tolist())) == [2, 3, 4]
    drawn = pool.draw(shape, 6, 3)
    assert drawn.pixels.shape == (6, rows * cols * 4, 588)
    for i, page in enumerate(drawn.page.tolist()):
        assert (drawn.pixels[i] == page).all()
        assert (drawn.ids[i] == page).all()
        assert (drawn.targets[i] == page).all()
        assert (drawn.printed[i] == page).all()


def judged_folder(root: Path) -> Path:
    (root / "images").mkdir(parents=True)
    (root / "qrels").mkdir()
    pages = [{"_id": f"p{i}", "image": f"images/{i}.png"} for i in range(6)]
    for i, page in enumerate(pages):
        Image.fromarray(tiny.page(450, 640, i)).save(root / page["image"])
    queries = [{"_id": f"q{i}", "text": f"question number {i}"} for i in range(6)]
    (root / "corpus.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    (root / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    lines = ["query-id\tcorpus-id\tscore", *(f"q{i}\tp{i}\t1" for i in range(6))]
    (root / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return root


def test_real_pages_come_with_their_questions_and_nothing_to_align(tmp_path: Path) -> None:
    model = tiny.model(1, 0, heads="shared")
    chunks = list(real_pages(str(judged_folder(tmp_path)), model.config, model.processor.tokenizer, 2))
    assert len(chunks) == 6
    assert len({int(chunk.page[0]) for chunk in chunks}) == 6
    expected = model.processor.query_ids("question number 3")
    assert chunks[3].ids[0, 0, : len(expected)].tolist() == expected
    assert (chunks[3].targets == -1).all()


def test_a_piece_runs_from_its_config_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command's own door: two pieces on a tiny model, real pages mixed in, judged at the end."""
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    folder = judged_folder(tmp_path / "pairs")
    settings = {
        "stage": "read",
        "output": str(tmp_path / "run"),
        "source": str(tmp_path / "start"),
        "steps": 4,
        "warmup": 1,
        "batch_tokens": 800,
        "workers": 1,
        "pool": 8,
        "log_every": 1,
        "save_every": 2,
        "pairs": [str(folder)],
        "pairs_share": 0.5,
        "pairs_from": 0.0,
        "judged": [str(folder)],
        "judge_every": 100,
        "optimiser": "adamw",
    }
    (tmp_path / "read.yaml").write_text(json.dumps(settings))
    done = train(tmp_path / "read.yaml")
    assert done.steps == 4
    assert math.isfinite(done.loss)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "align" in line] == [1, 2, 3, 4]
    assert 0 <= lines[-1]["pairs"] <= 1
    first = VarsDoc.from_pretrained(done.model, device="cpu")
    start = VarsDoc.from_pretrained(tmp_path / "start", device="cpu")
    assert not torch.equal(first.head(0).weight, start.head(0).weight)
    assert train(tmp_path / "read.yaml", resume=True).steps == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stepz": 3}, "unknown key 'stepz'"),
        ({"steps": 0}, "steps must be above 0"),
        ({"decay": 2.0}, "decay must lie between 0 and 1"),
        ({"contrast": 9}, "contrast must lie between 1 and queries"),
        ({"fonts": "nowhere"}, "names the folder nowhere, which does not exist"),
    ],
)
def test_a_wrong_config_is_one_sentence(change: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / "read.yaml").write_text(json.dumps({"stage": "read"} | change))
    with pytest.raises(ConfigError, match=message):
        load_read_config(tmp_path / "read.yaml")


def test_a_dry_run_says_what_a_piece_would_do_and_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "read.yaml").write_text(json.dumps({"stage": "read", "fonts": "nowhere", "steps": 700}))
    lines = "\n".join(plan(tmp_path / "read.yaml").lines())
    assert "random weights of 8 blocks x 384" in lines
    assert "700 by muon; its rate falls over the last 30%" in lines
    assert "96 of 36 x 28 cells" in lines
    assert "missing     the folder nowhere" in lines


def test_one_variant_becomes_several_that_read_on(tmp_path: Path) -> None:
    """A piece with variants: the source is expanded, trained with balance and diversity, and saved with its probes."""
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    folder = judged_folder(tmp_path / "pairs")
    config = ReadConfig(
        output=str(tmp_path / "run"),
        source=str(tmp_path / "start"),
        variants=3,
        branch_layers=2,
        noise=0.5,
        min_visual_tokens=6,
        steps=3,
        warmup=1,
        batch_tokens=2100,
        workers=1,
        pool=8,
        log_every=1,
        judged=[str(folder)],
    )
    path, steps, loss = read_stage(config)
    assert (steps, math.isfinite(loss)) == (3, True)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert 1 / 3 <= lines[-2]["most"] <= 1
    assert sum(lines[-1]["pairs/usage"]) == pytest.approx(1, abs=0.01)
    model = VarsDoc.from_pretrained(path, device="cpu")
    assert (model.config.variants, model.config.branch_layers, model.config.min_visual_tokens) == (3, 2, 6)
    with pytest.raises(ConfigError, match="this one has 3"):
        build(ReadConfig(source=str(path)))


def test_every_printed_token_is_in_the_cell_that_shows_it() -> None:
    tokenizer = tiny.tokenizer()
    grid = Grid(2, 4, 56, 112)
    words = [
        Word("Wide-Margins,", (2.0, 2.0, 110.0, 20.0), "body", 0, 0),
        Word("up", (60.0, 30.0, 80.0, 50.0), "body", 0, 0),
        Word("...", (0.0, 0.0, 5.0, 5.0), "body", 0, 0),
    ]
    table = printed_tokens(words, grid, Speller(tokenizer))
    kept = table[table[:, 0] >= 0]
    expected = [tokenizer.encode(" wide-margins").ids, tokenizer.encode(" up").ids]
    assert kept[:, 0].tolist() == [*expected[0], *expected[1]]
    first = kept[: len(expected[0])]
    assert (first[0, 1], first[-1, 1]) == (0, 3), "from the left end to the right end of the row"
    assert (np.diff(first[:, 1]) >= 0).all()
    assert kept[-1, 1] == 6
    assert len(set(first[:, 2])) == 1
    assert kept[-1, 2] != first[0, 2]


def test_a_transcript_is_the_prefix_and_a_run_of_printed_tokens() -> None:
    printed = torch.full((2, PRINTED, 3), -1, dtype=torch.int32)
    printed[0, :5] = torch.arange(15).view(5, 3).int() + 100
    printed[1, :200] = torch.arange(600).view(200, 3).int()
    prefix = torch.tensor([7, 8])
    ids, keys = transcripts(printed, prefix, 3, torch.Generator().manual_seed(0))
    assert ids.shape == keys.shape == (2, 3, TOKENS)
    assert (ids[..., :2] == prefix).all()
    assert (keys[..., :2] == -1).all()
    assert ids[0, 0, 2:7].tolist() == printed[0, :5, 0].tolist()
    assert (ids[0, :, 7:] == -1).all()
    for run, names in zip(ids[1, :, 2:], keys[1, :, 2:], strict=True):
        start = int(run[0]) // 3
        assert run.tolist() == printed[1, start : start + TOKENS - 2, 0].tolist()
        assert names.tolist() == printed[1, start : start + TOKENS - 2, 2].tolist()
    assert len({int(run[2]) for run in ids[1]}) > 1


def test_spelling_is_the_cross_entropy_of_the_token_given_its_cell() -> None:
    cells, embedding = torch.randn(2, 4, 8), torch.randn(11, 8)
    printed = torch.full((2, PRINTED, 3), -1, dtype=torch.int32)
    printed[0, 0] = torch.tensor([3, 2, 1])
    printed[1, 0] = torch.tensor([9, 0, 1])
    unit = torch.nn.functional.normalize
    expected = [
        -(20 * unit(cells[b, c], dim=0) @ unit(embedding, dim=1).T).log_softmax(0)[t]
        for b, c, t in ((0, 2, 3), (1, 0, 9))
    ]
    assert Spelling()(cells, printed, embedding).item() == pytest.approx(sum(expected).item() / 2, abs=1e-4)
    assert Spelling()(cells, torch.full_like(printed, -1), embedding).item() == 0


def test_the_winner_is_the_variant_with_the_best_sum_and_only_it_is_taught() -> None:
    queries, cells = torch.randn(2, 3, 4, 8), torch.randn(2, 5, 6, 8, requires_grad=True)
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, 0, 2:] = False
    similarity, winner = best_similarity(queries, cells, mask)
    for b in range(2):
        for n in range(3):
            every = torch.stack([queries[b, n] @ cells[b, k].T for k in range(5)])
            sums = (every.amax(-1) * mask[b, n]).sum(-1)
            assert winner[b, n] == sums.argmax()
            torch.testing.assert_close(similarity[b, n], every[sums.argmax()])
    similarity[0, 0].sum().backward()
    assert cells.grad is not None
    assert cells.grad[0].flatten(1).any(1).nonzero().flatten().tolist() == [winner[0, 0].item()]


def test_muon_in_batches_is_torchs_muon() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch.optim.Muon came with torch 2.9")
    generator = torch.Generator().manual_seed(0)
    shapes = [(12, 8), (8, 12), (12, 8), (8, 8)]
    ours = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    a = BatchedMuon(ours, 0.01, 0.05)
    b = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn(p.shape, generator=generator)
            q.grad = p.grad.clone()
        a.step()
        b.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, atol=2e-4, rtol=0)  # bfloat16 products round in another order


def test_words_that_an_engine_read_teach_real_pages(tmp_path: Path) -> None:
    model = tiny.model(1, 0, heads="shared")
    folder = judged_folder(tmp_path)
    words = ["Question", "of", "the", "Number", "12.5%", "Margins", "income", "region"]
    boxes = [[w, i / 8, 0.1, (i + 1) / 8, 0.2, 90] for i, w in enumerate(words)]
    (folder / "words.jsonl").write_text(json.dumps({"_id": "p3", "words": boxes}) + "\n")
    tokenizer = model.processor.tokenizer
    chunks = list(real_pages(str(folder), model.config, tokenizer, 2, views=2))
    assert len(chunks) == 12
    taught = chunks[3]
    expected = model.processor.query_ids("question number 3")
    assert taught.ids[0, 0, : len(expected)].tolist() == expected
    rows, cols = SHAPES[taught.shape]
    cells = set(taught.targets[0, 0][taught.targets[0, 0] >= 0].tolist())
    assert cells
    assert all(rows * 0.05 <= cell // cols <= rows * 0.25 for cell in cells)
    assert (taught.targets[0, 4:] >= 0).any((1, 2)).all(), "runs of printed words fill the other places"
    assert (taught.printed >= 0).sum() > 20
    assert (chunks[2].printed == -1).all()
    assert chunks[9].page == taught.page
    assert not np.array_equal(chunks[9].pixels, taught.pixels)
