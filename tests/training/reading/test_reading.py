"""The reading stage: targets point at ink, losses are right, pages keep their words in every shape, a piece runs."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from reading_tools import pack_folder
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.generator import PageStream, Word
from varsdoc.training.plan import plan
from varsdoc.training.reading.config import ReadConfig, load_read_config
from varsdoc.training.reading.losses import alignment, best_similarity, found
from varsdoc.training.reading.master import MasterWeights
from varsdoc.training.reading.muon import BatchedMuon
from varsdoc.training.reading.pages import QUERIES, SHAPES, Chunk, Maker, cut_to_shape, nearest_shape
from varsdoc.training.reading.pool import Pool
from varsdoc.training.reading.printed import PRINTED, Speller, Spelling, printed_tokens, transcripts, word_cells
from varsdoc.training.reading.stage import Reading, read_stage
from varsdoc.training.reading.start import build, keep_variant
from varsdoc.training.reading.step import query_batch
from varsdoc.training.reading.targets import PLACES, TOKENS, Grid, places, token_keys, tokenise
from varsdoc.training.reading.words import BITS, word_key
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
        grid = Grid(rows, cols, *sample.image.shape[:2])
        table = torch.from_numpy(places(sample.words, [word_key(word.text) for word in sample.words], grid))
        for query in sample.queries:
            _, offsets = tokenise(tokenizer, query.text, config)
            keys = token_keys(sample.words, query.links, offsets, len(config.query_prefix))
            assert keys.shape == (len(offsets),)
            assert (keys[:2] == -1).all(), "the prefix is printed nowhere"
            for row in word_cells(torch.from_numpy(keys)[None], table[None], rows * cols)[0]:
                cells = row.nonzero().flatten().tolist()
                taught += len(cells)
                inked += sum(int(np.ptp(pixels[cell].astype(int)) > 20) for cell in cells)
    assert taught > 200
    assert inked / taught > 0.97


def test_alignment_and_found_against_their_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, cells = torch.randn(2, 3, 4, 8, generator=generator), torch.randn(2, 10, 8, generator=generator)
    shown = torch.zeros(2, 3, 4, 10, dtype=torch.bool)
    shown[0, 1, 2, [3, 5]] = True
    shown[1, 0, 0, 9] = True
    first = (2.0 * queries[0, 1, 2] @ cells[0].T).softmax(0)[[3, 5]].sum().log()
    second = (2.0 * queries[1, 0, 0] @ cells[1].T).softmax(0)[9].log()
    similarity, _ = best_similarity(queries, cells[:, None], shown.any(-1))
    assert alignment(similarity, shown, 2.0).item() == pytest.approx(-(first + second).item() / 2, abs=1e-5)
    hits = [(queries[0, 1, 2] @ cells[0].T).argmax() in (3, 5), (queries[1, 0, 0] @ cells[1].T).argmax() == 9]
    assert found(similarity, shown).item() == pytest.approx(sum(map(int, hits)) / 2)


def test_nothing_taught_costs_nothing_and_has_a_finite_gradient() -> None:
    similarity = torch.randn(1, 1, 3, 5, requires_grad=True)
    loss = alignment(similarity, torch.zeros(1, 1, 3, 5, dtype=torch.bool), 20.0)
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
    assert (chunk.keys >= 0).any()
    assert not chunk.real
    again = next(maker.chunks(0, 1, 0))
    assert np.array_equal(chunk.pixels, again.pixels)
    assert np.array_equal(chunk.keys, again.keys)


def test_the_pool_replaces_its_oldest_pages_and_draws_each_page_with_its_own_queries() -> None:
    shape = 2
    rows, cols = SHAPES[shape]

    def chunk(number: int) -> Chunk:
        def full(*size: int, dtype: type) -> np.ndarray:
            return np.full((2, *size), number, dtype)

        pixels = full(rows * cols * 4, 196, dtype=np.uint8)
        ids, keys = full(QUERIES, TOKENS, dtype=np.int16), full(QUERIES, TOKENS, dtype=np.int32)
        printed, where = full(PRINTED, 3, dtype=np.int32), full(PLACES, 2, dtype=np.int32)
        return Chunk(
            shape, False, pixels, ids, keys, full(dtype=np.int64), printed, where, full(BITS // 8, dtype=np.uint8)
        )

    pool = Pool({shape: 6}, torch.device("cpu"))
    for number in range(5):
        pool.add(chunk(number))
    assert pool.filled(shape) == 6
    assert sorted(set(pool.rings[shape].held["page"].tolist())) == [2, 3, 4]
    drawn = pool.draw(shape, 6, 3)
    assert drawn.pixels.shape == (6, rows * cols * 4, 588)
    for i, page in enumerate(drawn.page.tolist()):
        assert (drawn.pixels[i] == page).all()
        assert (drawn.ids[i] == page).all()
        for held in (drawn.keys, drawn.printed, drawn.places, drawn.present):
            assert (held[i] == page).all()


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
        "real_pool": 8,
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
    assert "64 of 44 x 34 or 33 x 45 or 55 x 27 cells" in lines
    assert "missing     the folder nowhere" in lines


def test_one_variant_becomes_several_that_read_on(tmp_path: Path) -> None:
    """A piece with variants: the source is expanded, trained with balance and diversity, and saved with its probes."""
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    folder = judged_folder(tmp_path / "pairs")
    config = ReadConfig(
        output=str(tmp_path / "run"),
        source=str(tmp_path / "start"),
        variants=3,
        fair=0.5,
        branch_layers=2,
        noise=0.5,
        min_visual_tokens=6,
        steps=3,
        warmup=1,
        batch_tokens=2100,
        workers=1,
        pool=8,
        real_pool=8,
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
        build(ReadConfig(source=str(path), variants=2, branch_layers=2))
    with pytest.raises(ConfigError, match="source_variant must lie between 0 and 2, not 3"):
        build(ReadConfig(source=str(path), source_variant=3))
    one = build(ReadConfig(source=str(path), source_variant=1))
    assert (one.config.variants, one.config.branch_layers, len(one.probes)) == (1, 0, 0)
    assert torch.equal(one.head(0).weight, model.head(1).weight)
    assert one.query_head is not None
    probed = build(ReadConfig(source=str(path), source_variant=1, branch_layers=2))
    assert (probed.config.variants, probed.config.branch_layers, len(probed.probes)) == (1, 2, 1)
    assert torch.equal(probed.probes[0], model.probes[1]), "a variant that keeps its blocks keeps its probe"
    other = build(ReadConfig(source=str(path), source_variant=1, branch_layers=1))
    assert (other.config.branch_layers, len(other.probes)) == (1, 1), "for other blocks it gets a new one"
    one.save_pretrained(tmp_path / "one")
    several = ReadConfig(source=str(tmp_path / "one"), variants=2, branch_layers=2, fresh=True, probe_noise=1.0)
    new = build(several)
    assert new.query_head is not None
    assert torch.equal(new.query_head.weight, one.query_head.weight)
    far = [(new.head(k).weight - old).norm() / old.norm() for k in range(2) for old in (one.head(0).weight,)]
    assert min(far) > 0.5, "new heads share no history, not even the first"
    assert (new.probes[0] - new.probes[1]).norm() > 0.1 * new.probes[0].norm()


def test_pages_of_another_kind_are_no_wrong_answers_where_banks_are_alike(tmp_path: Path) -> None:
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    pack_folder(tmp_path / "packs")
    common = {"source": str(tmp_path / "start"), "pairs": [str(tmp_path / "packs")], "real_made": 0.5}
    small = {
        "steps": 12,
        "pairs_from": 0.0,
        "pairs_share": 0.5,
        "warmup": 1,
        "batch_tokens": 2100,
        "workers": 1,
        "pool": 8,
        "real_pool": 8,
    }
    kinds = []
    for alike in (False, True):
        config = ReadConfig(output=str(tmp_path / str(alike)), bank=2, alike=alike, **common, **small)
        piece = Reading(config)
        piece.run()
        kinds.append(set(piece.banks))
        assert all(len(list(bank)) <= 2 for bank in piece.banks.values())
        for kind, bank in piece.banks.items():
            lengths = {part.vectors.shape[2] for part in bank}
            assert kind is None or len(lengths) == 1, "one shape, so one length"
    assert kinds[0] == {None}
    assert len(kinds[1]) > 1


def test_a_variant_that_goes_on_alone_keeps_all_its_probes() -> None:
    model = tiny.model(variants=3, probes_per_variant=2)
    probes = model.probes.detach().clone()
    keep_variant(model, 1, probe=True)
    assert torch.equal(model.probes, probes[2:4])
    assert model.encode_pages([tiny.page(84, 84)])[0].variants.shape[0] == 1


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
    cased = printed_tokens(words, grid, Speller(tokenizer), cased=True)
    names = tokenizer.encode(" Wide-Margins").ids
    assert cased[: len(names), 0].tolist() == names
    assert cased[0, 2] == first[0, 2], "the same word, however it is written"


@pytest.mark.parametrize(
    ("run", "cells"),
    [
        ((14.0, 110.0, 14.0, 2.0), [12, 8, 4, 0]),  # upwards
        ((3.0, 107.0, 109.0, 3.0), [12, 9, 6, 3]),  # rising
        ((3.0, 4.0, 109.0, 108.0), [0, 5, 10, 15]),  # falling
    ],
)
def test_the_tokens_of_a_turned_word_lie_along_its_run(run: tuple[float, ...], cells: list[int]) -> None:
    grid, speller = Grid(4, 4, 112, 112), Speller(tiny.tokenizer())
    box = (min(run[::2]) - 2, min(run[1::2]) - 2, max(run[::2]) + 2, max(run[1::2]) + 2)
    words = [Word("Telecommunications", box, "axis", 0, 0, run)]
    table = printed_tokens(words, grid, speller)
    found = table[table[:, 0] >= 0][:, 1]
    rows = found // 4
    assert (found[0], found[-1]) == (cells[0], cells[-1]), "from one end to the other"
    assert (np.diff(rows) * np.sign(rows[-1] - rows[0]) >= 0).all(), "in the order in which it is read"
    shown = grid.cells(words[0])
    assert {*cells, *found.tolist()} <= set(shown)
    assert len(shown) <= 7, "and not all the cells of its box"


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


def test_a_transcript_never_begins_or_ends_inside_a_word() -> None:
    printed = torch.full((1, PRINTED, 3), -1, dtype=torch.int32)
    length = 300
    printed[0, :length, 0] = torch.arange(length)
    printed[0, :length, 2] = torch.arange(length) // 7 + 1000  # words of seven tokens
    ids, keys = transcripts(printed, torch.tensor([7]), 40, torch.Generator().manual_seed(1))
    for run, names in zip(ids[0, :, 1:], keys[0, :, 1:], strict=True):
        real = run[run >= 0].tolist()
        assert real[0] % 7 == 0
        assert real[-1] % 7 == 6 or real[-1] == length - 1
        assert real == list(range(real[0], real[-1] + 1))
        assert (names[: len(real)] == printed[0, real, 2]).all()
        assert (names[len(real) :] == -1).all()
    assert len({int(run[1]) for run in ids[0]}) > 3


def test_a_page_with_too_many_tokens_gives_a_run_of_whole_words() -> None:
    speller = Speller(tiny.tokenizer())
    words = [Word(f"overdetermined{i}", (1.0, 1.0, 50.0, 9.0), "body", 0, 0) for i in range(PRINTED)]
    for start in (0.0, 0.37, 1.0):
        table = printed_tokens(words, Grid(2, 4, 56, 112), speller, start)
        kept = table[table[:, 0] >= 0]
        assert PRINTED - 40 < len(kept) <= PRINTED
        keys = {word_key(word.text): speller(word.text)[0] for word in words}
        for end in (0, -1):
            key = int(kept[end, 2])
            assert kept[kept[:, 2] == key, 0].tolist() == keys[key]


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
    generator = torch.Generator().manual_seed(0)
    told = Spelling()(cells, printed, embedding, generator)
    assert told.item() == pytest.approx(sum(expected).item() / 2, abs=1e-4)
    assert Spelling()(cells, torch.full_like(printed, -1), embedding, generator).item() == 0


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
    given = torch.tensor([[4, 0, 2], [1, 1, 3]])
    similarity, dealt = best_similarity(queries, cells, mask, given)
    assert torch.equal(dealt, given)
    torch.testing.assert_close(similarity[1, 2], queries[1, 2] @ cells[1, 3].T)


def test_nearly_equal_variants_in_bfloat16_do_not_all_go_to_the_first() -> None:
    queries = torch.ones(1, 1, 30, 1, dtype=torch.bfloat16)
    cells = torch.tensor([0.8984375, 0.8984375, 0.90234375], dtype=torch.bfloat16).view(1, 3, 1, 1)
    _, winner = best_similarity(queries, cells, torch.ones(1, 1, 30, dtype=torch.bool))
    assert winner.item() == 2


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masters_in_one_vector_learn_as_parameters_one_by_one(dtype: torch.dtype) -> None:
    """Clipping over all of them, decay, and a parameter that has no gradient and must not move."""
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3)).to(dtype)
    theirs = deepcopy(ours).float()
    weights = MasterWeights(ours, 0.01, 0.05, muon=False)
    matrices, vectors = ([p for p in theirs.parameters() if (p.ndim > 1) == many] for many in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    plain = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.98), eps=1e-8)
    idle = ours[2].bias.detach().clone()
    for factor in (1.0, 0.5, 0.25):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            if p is not ours[2].bias:
                p.grad = torch.randn(p.shape).to(dtype)
                q.grad = p.grad.float().clone()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        for group in plain.param_groups:
            group["lr"] = 0.01 * factor
        plain.step()
        torch.testing.assert_close(weights.step(factor, 1.0), norm)
        assert all(p.grad is None for p in ours.parameters())
    assert torch.equal(ours[2].bias, idle)
    for p, master, q in zip(ours.parameters(), weights.master, theirs.parameters(), strict=True):
        torch.testing.assert_close(master.detach(), q.detach())
        assert torch.equal(p.detach(), master.detach().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_mean_is_that_of_the_masters_that_were_remembered(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)).to(dtype)
    weights = MasterWeights(model, 0.1, 0.0, muon=False)
    passed = []
    for i in range(5):
        for p in model.parameters():
            p.grad = torch.randn(p.shape).to(dtype)
        weights.step(1.0, 1.0)
        if i >= 2:
            weights.remember()
            passed.append(weights.flat.clone())
    assert weights.remembered == 3
    weights.become_mean()
    expected = torch.stack(passed).mean(0)
    torch.testing.assert_close(weights.flat, expected)
    live = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(live, weights.flat.to(dtype))


def test_a_piece_with_a_mean_leaves_it_and_its_last_weights(tmp_path: Path) -> None:
    """The mean over the second half of six steps, judged after the last weights, from the masters of these steps."""
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    folder = judged_folder(tmp_path / "judged")
    config = ReadConfig(
        output=str(tmp_path / "run"),
        source=str(tmp_path / "start"),
        steps=6,
        warmup=1,
        decay=0.0,
        mean_from=0.6,  # steps 4, 5 and 6
        batch_tokens=800,
        workers=1,
        pool=8,
        log_every=10,
        judged=[str(folder)],
        optimiser="adamw",
        lr=0.05,
    )
    passed: list[torch.Tensor] = []

    class Watched(Reading):
        def one(self, i: int) -> Any:
            taken = super().one(i)
            passed.append(self.model.head(0).weight.detach().clone())
            return taken

    made = Watched(config).run()
    mean, last = (VarsDoc.from_pretrained(path, device="cpu") for path in (made, tmp_path / "run" / "last"))
    rounded = {"atol": 0.01, "rtol": 0.01}  # they are stored in bfloat16
    torch.testing.assert_close(last.head(0).weight.detach(), passed[-1], **rounded)
    torch.testing.assert_close(mean.head(0).weight.detach(), torch.stack(passed[3:]).mean(0), **rounded)
    assert not torch.allclose(mean.head(0).weight, last.head(0).weight, **rounded)
    assert mean.config.trained
    assert last.config.trained
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["weights"] for line in lines if "weights" in line] == ["last", "mean"]
