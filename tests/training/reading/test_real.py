"""Real pages: packs keep what was packed, views keep words where their ink is, and no view comes twice."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import tiny
from reading_tools import NAMES, pack_folder, packed, picture
from varsdoc.training.generator import PageStream, Word
from varsdoc.training.generator.pdf_words import in_lines
from varsdoc.training.reading.packs import Pack, source_of, write_pack
from varsdoc.training.reading.pages import CHUNK, Maker
from varsdoc.training.reading.real import RealStream, choose_queries, find_pages, view_page
from varsdoc.training.reading.targets import along
from varsdoc.training.reading.views import new_view
from varsdoc.training.reading.words import plain, presence, word_key
from varsdoc.training.sources import DataError


def test_a_pack_gives_back_what_was_packed(tmp_path: Path) -> None:
    (folder,) = pack_folder(tmp_path)
    pack = Pack(folder)
    assert len(pack) == 5
    for i in (0, 3, 4):
        before, page = packed(f"page {i}", i % 2 == 0), pack[i]
        assert (page.name, page.picture, len(page.questions)) == (f"page {i}", before.picture, 2)
        assert [(w.text, w.sure) for w in page.words] == [(w.text, w.sure) for w in before.words]
        assert np.abs(np.array([w.box for w in page.words]) - [w.box for w in before.words]).max() < 1e-4
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["source"], manifest["pages"], manifest["questions"]) == ("a test", 5, 10)


def test_a_pack_keeps_where_turned_words_run_and_older_packs_have_none(tmp_path: Path) -> None:
    before = packed("page 0")
    run = (0.1, 0.9, 0.3, 0.5)
    words = [replace(word, run=run if i in (2, 5) else None) for i, word in enumerate(before.words)]
    write_pack(tmp_path / "new", [before, replace(before, words=words)], {"source": "a test"})
    pack = Pack(tmp_path / "new")
    assert all(word.run is None for word in pack[0].words)
    assert [i for i, word in enumerate(pack[1].words) if word.run] == [2, 5]
    assert pack[1].words[5].run == pytest.approx(run, abs=1e-4)
    held = dict(np.load(tmp_path / "new" / "pack.npz"))
    np.savez(tmp_path / "new" / "pack.npz", **{k: v for k, v in held.items() if k not in ("turned", "runs")})
    assert all(word.run is None for word in Pack(tmp_path / "new")[1].words)


def test_a_view_moves_runs_with_the_ink() -> None:
    image = Image.new("L", (600, 600), 255)
    ImageDraw.Draw(image).line((100, 500, 300, 300), fill=0, width=16)
    words = [Word("rising", (94, 294, 306, 506), "sure", 0, 0, (100.0, 500.0, 300.0, 300.0))]
    seen = []
    for seed in range(16):
        for word in new_view(image, words, random.Random(seed)).words:
            view = new_view(image, words, random.Random(seed)).image
            assert word.run is not None
            seen += [abs(int(view[int(y), int(x)]) - np.median(view)) > 60 for x, y in along(word.run, 5)]
    assert len(seen) > 40
    assert np.mean(seen) > 0.97


def test_words_of_one_turned_line_belong_together() -> None:
    """An axis title of three words, its level neighbour, and a label that rises elsewhere."""
    upwards = [("Share", 90, 60), ("of", 56, 46), ("respondents", 42, 2)]
    words = [Word(text, (0, b, 8, a), "sure", 0, 0, (4.0, float(a), 4.0, float(b))) for text, a, b in upwards]
    words += [Word("2019", (40, 80, 60, 90), "sure", 0, 0)]
    words += [Word("Norway", (80, 80, 99, 99), "sure", 0, 0, (80.0, 99.0, 99.0, 80.0))]
    assert [word.line for word in in_lines(words)] == [0, 0, 0, 1, 2]


def test_packs_are_cut_at_their_limit_and_a_torn_one_is_named(tmp_path: Path) -> None:
    size = len(packed("x").picture) + 800
    folders = pack_folder(tmp_path, 7, 3 * size)
    assert len(folders) > 1
    assert sum(len(Pack(folder)) for folder in folders) == 7
    whole = (folders[0] / "pages.bin").read_bytes()
    (folders[0] / "pages.bin").write_bytes(whole[:-10])
    with pytest.raises(DataError, match="carry it over again"):
        Pack(folders[0])


@pytest.mark.parametrize("grey", [True, False])
def test_words_stay_on_their_ink_in_every_view(grey: bool) -> None:
    image, printed = picture(grey)
    words = [
        Word(w.text, (w.box[0] * 620, w.box[1] * 800, w.box[2] * 620, w.box[3] * 800), "sure", 0, 0) for w in printed
    ]
    seen, sizes = [], set()
    for seed in range(24):
        view = new_view(image, words, random.Random(seed))
        array = view.image if view.image.ndim == 2 else view.image.mean(2)
        paper = np.median(array)
        assert len(view.words) >= 4
        sizes.add(view.image.shape[:2])
        for word in view.words:
            x0, y0, x1, y1 = word.box
            w, h = (x1 - x0) / 4, (y1 - y0) / 4
            inside = array[round(y0 + h) : round(y1 - h), round(x0 + w) : round(x1 - w)]
            seen.append(abs(float(np.mean(inside)) - paper) > 40)
        whole = {word.text for word in view.words}
        assert whole.isdisjoint(word.text for word in view.cut)
    assert np.mean(seen) > 0.97
    assert len(sizes) > 5


def test_queries_of_a_view_name_words_that_it_shows() -> None:
    page = packed("a", questions=("What net income had the company in Europe?", "What is the value?"))
    for seed in range(12):
        view = view_page(page, random.Random(seed))
        texts = [text for text, _ in view.queries]
        assert "What is the value?" not in texts, "it names nothing that is printed"
        for text, links in view.queries:
            assert links
            for start, end, word in links:
                assert 0 <= start < end <= len(text)
                assert word < len(view.words)
        for text, links in view.queries:
            if text.startswith("What net income"):
                named = {plain(text[a:b]) for a, b, _ in links}
                assert named <= {plain(word.text) for word in view.words}
        assert word_key("asia") not in {word_key(word.text) for word in view.words}, "a doubtful word is not taught"


def test_a_page_without_words_keeps_its_questions_and_one_with_few_is_left_out() -> None:
    assert choose_queries(["a?", "b?"], [], random.Random(0)) == [("a?", []), ("b?", [])]
    assert choose_queries(["a?"], [Word("two", (0, 0, 1, 1), "sure", 0, 0)], random.Random(0)) == []


def test_packs_are_found_below_a_folder_and_pages_kept_for_judging_are_refused(tmp_path: Path) -> None:
    folders = [str(folder) for folder in pack_folder(tmp_path / "data" / "slice-0")]
    assert list(find_pages([str(tmp_path / "data")])) == folders == list(find_pages(folders))
    with pytest.raises(DataError, match="holds no packs"):
        find_pages([str(tmp_path / "nowhere")])
    (Path(folders[0]) / "manifest.json").write_text(json.dumps({"source": "docvqa-dev"}))
    with pytest.raises(DataError, match="kept for judging"):
        find_pages([str(tmp_path / "data")])


def test_a_source_can_be_shown_more_often(tmp_path: Path) -> None:
    folders = tuple(str(folder) for folder in pack_folder(tmp_path))
    stream = RealStream(folders, seed=3, often={source_of(folders[0]): 3})
    views = list(islice(stream.part(0, 1, 0), 3 * len(stream)))
    counts = Counter(view.number for view in views)
    assert set(counts.values()) == {3}
    assert len({np.asarray(view.image).tobytes() for view in views}) == len(views), "each time another view"


def test_workers_make_ever_new_views_of_real_pages_beside_generated_ones(tmp_path: Path) -> None:
    model = tiny.model(1, 0, heads="shared")
    folders = tuple(str(folder) for folder in pack_folder(tmp_path))
    stream = PageStream(seed=1, layouts={"plot": 1})
    maker = Maker(stream, model.config, model.processor.tokenizer.to_str(), RealStream(folders, seed=3), 0.9)
    chunks = maker.chunks(0, 1, 0)
    real = [chunk for chunk in (next(chunks) for _ in range(3)) if chunk.real]
    assert len(real) >= 2
    pixels = np.concatenate([chunk.pixels for chunk in real if chunk.pixels.shape == real[0].pixels.shape])
    assert len({row.tobytes() for row in pixels}) == len(pixels) >= CHUNK
    numbers = {int(number) for chunk in real for number in chunk.page}
    assert len(numbers) == 5
    assert min(numbers) >= 1 << 55
    known = presence(word_key(name) for name in NAMES)
    for chunk in real:
        assert (chunk.keys >= 0).any(2).all()
        assert ((chunk.present & ~known) == 0).all()
        assert (chunk.printed[:, :, 0] >= 0).sum(1).min() > 4
