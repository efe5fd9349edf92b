"""Search beyond the scenario: filters, pictures as questions, hybrid, candidates, moved collections."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import numpy as np
import pytest

from index.papers import pdf, picture, squares, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import CollectionError, ConfigError, FilterError, InputError

WORDS = ["valve pressure manual", "travel expense claim", "annual revenue growth", "cell temperature survival"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    pdf(folder / "words.pdf", WORDS)
    tiff(folder / "squares.tiff", [1, 2, 3, 4])
    picture(folder / "it's.png", 5)
    return folder


@pytest.fixture(scope="module")
def index(folder: Path, model: VarsDoc, tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Not pooled: the dozen cells of these pages under random weights have nothing in common."""
    index = Index.open(tmp_path_factory.mktemp("collection") / "index", model, codec="int4")
    assert index.add(folder, metadata={"year": 2021, "kind": "test"}).added == 9
    return index


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("document = 'words.pdf'", 4),
        ("document LIKE 'squares%' AND page IN (1, 4)", 2),
        ("document = 'it''s.png'", 1),
        ("page > 2", 4),
        ("pages = 1", 1),
        ("year = 2021 AND kind = 'test' AND page = 1", 3),
        ("metadata.year < 2000", 0),
        ("NOT (page = 1) OR document = 'it''s.png'", 7),
    ],
)
def test_where_is_sql_on_document_page_and_metadata(index: Index, where: str, expected: int) -> None:
    assert len(index.search("valve", k=50, where=where)) == expected


def test_a_hit_brings_its_text_layer_or_none(index: Index) -> None:
    texts = {(hit.document, hit.page): hit.text() for hit in index.search("valve", k=9)}
    assert [texts["words.pdf", page] for page in (1, 2, 3, 4)] == WORDS
    assert {text for (document, _), text in texts.items() if document != "words.pdf"} == {None}


def test_a_hit_shows_the_cells_of_its_own_page_and_not_the_prompt(index: Index, model: VarsDoc) -> None:
    """The map is the page's image cells, in rows and columns, against the question: neither shifted nor turned."""
    question = model.encode_queries(["red valve"])[0].float().numpy()
    for hit in index.search("red valve", k=3):
        page = model.encode_pages([hit.image()])[0]
        for variant, token in ((0, 0), (hit.variant, len(question) - 1)):
            expected = (page.cells[variant].float().numpy() @ question[token]).reshape(page.grid)
            assert hit.similarity(variant, token) == pytest.approx(expected, abs=0.08)  # four bits, sixteen numbers


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("documnt = 'x'", "no such column"),
        ("document = ", "is not SQL"),
        ('document = "words.pdf"', "single quotes"),
        ("1 = 1; DROP TABLE pages", "semicolon"),
        ("  ", "empty"),
        ("page + 'x'", "is not SQL"),
    ],
)
def test_a_bad_filter_is_one_sentence(index: Index, where: str, said: str) -> None:
    with pytest.raises(FilterError, match=said) as caught:
        index.search("valve", where=where)
    assert "\n" not in str(caught.value)
    assert ".rs:" not in str(caught.value)


def test_a_page_finds_itself_by_its_picture(index: Index) -> None:
    for seed, page in ((1, 1), (3, 3)):
        best = index.search(like=squares(seed), k=3)[0]
        assert (best.document, best.page) == ("squares.tiff", page)
        assert best.score_normalised > 0.9  # the stored page went through JPEG


def test_a_question_or_a_picture_but_not_both(index: Index) -> None:
    for wrong in ({}, {"query": "x", "like": squares(1)}, {"like": squares(1), "hybrid": True}, {"query": "x", "k": 0}):
        with pytest.raises(ConfigError):
            index.search(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        index.search("   ")


def test_hybrid_brings_up_the_page_with_the_words_and_keeps_the_models_scores(index: Index) -> None:
    plain = {hit.id: hit.score for hit in index.search("expense claim", k=50)}
    hits = index.search("expense claim", k=50, hybrid=True)
    assert {hit.id: hit.score for hit in hits} == pytest.approx(plain)
    assert (hits[0].document, hits[0].page) == ("words.pdf", 2)
    assert [hit.fused_score for hit in hits] == sorted((hit.fused_score for hit in hits), reverse=True)
    only = index.search("expense claim", hybrid=True, where="page = 1")
    assert {hit.page for hit in only} == {1}
    assert all(hit.fused_score is None for hit in index.search("expense claim"))


def test_hybrid_finds_words_that_came_after_the_text_index_was_made(tmp_path: Path, model: VarsDoc) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(pdf(tmp_path / "a.pdf", WORDS))
    index.add(pdf(tmp_path / "b.pdf", [f"page about {word}" for word in ("ducks", "geese", "swans")]))
    assert [(hit.document, hit.page) for hit in index.search("geese", k=1, hybrid=True)] == [("b.pdf", 2)]
    pdf(tmp_path / "b.pdf", ["page about herons"])
    index.add(tmp_path / "b.pdf")
    assert all(hit.fused_score < 2 / 61 for hit in index.search("geese", hybrid=True))


def test_hybrid_takes_a_question_as_words_and_not_as_syntax(index: Index) -> None:
    for question in ('what "is" (this) AND', "a:b* ~2 +x -y", "'; --"):
        assert len(index.search(question, k=3, hybrid=True)) == 3


def test_hybrid_without_text_says_so_and_is_the_models_own(tmp_path: Path, model: VarsDoc) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(tiff(tmp_path / "a.tiff", [1, 2]))
    with pytest.warns(UserWarning, match="text layer"):
        hits = index.search("valve", hybrid=True)
    assert [hit.id for hit in hits] == [hit.id for hit in index.search("valve")]


def test_candidates_bound_the_exact_stage_and_exhaustive_lifts_it(index: Index) -> None:
    every = index.search("valve", k=50, exhaustive=True, candidates=2)
    few = index.search("valve", k=50, candidates=2)
    assert len(every) == 9
    assert len(few) == 2
    assert {hit.id: hit.score for hit in few}.items() <= {hit.id: hit.score for hit in every}.items()


def test_a_long_answer_keeps_no_more_codes_than_a_few_pages(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [hit.region for hit in index.search("valve", k=9)]
    monkeypatch.setattr("varsdoc.index.pinned._TOGETHER", 2)
    hits = Index.open(index._store.uri, index.model, memory=0).search("valve", k=9)
    held = []
    for hit in hits:
        assert hit.to_json()["id"] == hit.id
        held.append(len(hit._source._codes))
    assert max(held) == 2
    assert [hit.region for hit in reversed(hits)] == whole[::-1]
    assert hits[0].similarity() == pytest.approx(index.search("valve", k=1)[0].similarity())


def test_codes_on_demand_give_what_resident_codes_give(index: Index) -> None:
    lean = Index.open(index._store.uri, index.model, memory=0)
    for hybrid in (False, True):
        ours, theirs = (i.search("valve", k=50, hybrid=hybrid) for i in (index, lean))
        assert [(h.id, h.score, h.region) for h in ours] == [(h.id, h.score, h.region) for h in theirs]
    assert lean._view.snapshot is not None
    assert lean._view.snapshot.packed is None


def test_a_budget_that_is_outgrown_moves_codes_out_and_back(tmp_path: Path, model: VarsDoc) -> None:
    tiff(tmp_path / "p" / "a.tiff", [1, 2])
    index = Index.open(tmp_path / "index", model)
    index.add(tmp_path / "p")
    bytes_now = sum(d.code_bytes for d in index._store.generation(1).read_documents().values())
    reader = Index.open(tmp_path / "index", model, memory=bytes_now)
    before = {h.id: h.score for h in reader.search("valve")}
    tiff(tmp_path / "p" / "b.tiff", [3, 4, 5])
    index.add(tmp_path / "p")
    assert before.items() < {h.id: h.score for h in reader.search("valve")}.items()
    assert reader._view.snapshot is not None
    assert reader._view.snapshot.packed is None
    index.remove("b.tiff")
    assert {h.id: h.score for h in reader.search("valve")} == before
    assert reader._view.snapshot.packed is not None


def test_a_hit_outlives_the_document_it_came_from(tmp_path: Path, model: VarsDoc) -> None:
    source = tiff(tmp_path / "a.tiff", [1])
    index = Index.open(tmp_path / "index", model)
    index.add(source)
    hit = index.search("valve")[0]
    picture_then = hit.jpeg()
    tiff(source, [2])
    index.add(source)
    index.search("valve")
    assert hit.jpeg() == picture_then
    assert np.isfinite(hit.similarity()).all()
    assert index.search("valve")[0].jpeg() != picture_then
    assert index.page_jpeg(hit.id) != picture_then


def test_compaction_and_cleanup_break_no_reader(tmp_path: Path, model: VarsDoc) -> None:
    for seed in range(6):
        picture(tmp_path / "p" / f"{seed}.png", seed)
    index, reader = (Index.open(tmp_path / "index", model, memory=memory) for memory in (1 << 30, 0))
    for seed in range(6):
        index.add(tmp_path / "p" / f"{seed}.png")
    before = {hit.id: hit.score for hit in reader.search("valve")}
    old = reader.search("valve")[0]
    generation = index._store.generation(1)
    assert generation.pages.stats()["fragment_stats"]["num_fragments"] == 6
    with pytest.warns(UserWarning, match="removes every version"):
        generation.optimize(exclusive=True, keep=datetime.timedelta(0), force=True)
    assert generation.pages.stats()["fragment_stats"]["num_fragments"] == 1
    assert {hit.id: hit.score for hit in reader.search("valve")} == before
    with pytest.raises(Exception, match="search again"):
        old.jpeg()


def test_equal_scores_are_ordered_by_document_and_page(tmp_path: Path, model: VarsDoc) -> None:
    for name in ("b.tiff", "a.tiff"):
        tiff(tmp_path / "p" / name, [1, 1])
        index = Index.open(tmp_path / "index", model)
        index.add(tmp_path / "p" / name)
    assert [(h.document, h.page) for h in index.search("x")] == [
        ("a.tiff", 1),
        ("a.tiff", 2),
        ("b.tiff", 1),
        ("b.tiff", 2),
    ]


def test_a_damaged_collection_is_a_sentence(tmp_path: Path, model: VarsDoc) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(tiff(tmp_path / "a.tiff", [1, 2]))
    for path in (tmp_path / "index" / "pages_1.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CollectionError, match="cannot be read") as caught:
        Index.open(tmp_path / "index", model).search("valve")
    assert ".rs:" not in str(caught.value)


@pytest.mark.parametrize(
    "lost", ["collection.lance/_versions/*", "documents_1.lance/*/*", "documents_1.lance", "pages_1.lance"]
)
def test_a_collection_that_cannot_be_read_is_a_sentence_whatever_is_asked(
    tmp_path: Path, model: VarsDoc, lost: str
) -> None:
    place = tmp_path / "index"
    Index.open(place, model).add(tiff(tmp_path / "a.tiff", [1, 2]))
    for path in place.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"")
    asked = (Index.list, lambda i: i.search("valve"), lambda i: i.remove("a.tiff"), lambda i: i.add(tmp_path))
    for ask in asked:
        with pytest.raises(CollectionError, match=r"cannot be (read|written)") as caught:
            ask(Index.open(place, model))
        assert ".rs:" not in str(caught.value)


def test_a_store_out_of_reach_is_not_an_empty_one() -> None:
    """It would be made anew, over what is there."""
    with pytest.raises(CollectionError, match="cannot be reached"):
        Index.open("nonsense://bucket/name")
