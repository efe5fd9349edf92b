"""Bad judgements are counted, or refused with a sentence; none is scored as zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation_tools import write_folder, write_lines, write_pdf
from varsdoc.evaluation.errors import JudgementError
from varsdoc.evaluation.judged import read_folder


def test_a_good_folder_has_no_problems(folder: Path) -> None:
    judged = read_folder(folder)
    assert judged.name == "tiny-dev"
    assert [page.id for page in judged.pages] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert len(judged.queries) == 8
    assert judged.grades["q0"] == {"p0": 2, "p5": 1}
    assert judged.problems.sentences() == []
    assert judged.gold[0] == (0, 0)


def test_faults_in_judgements_are_counted_and_said(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "set", extra_rows=["q0\tp0\t2", "q1\tnowhere\t1", "nobody\tp1\t1", "q8\tnowhere\t1", "q9\tp1\t0"]
    )
    with (folder / "queries.jsonl").open("a") as file:
        for query, text in (("q8", "gold is missing"), ("q9", "zero only"), ("q10", "unjudged"), ("q11", "")):
            file.write(json.dumps({"_id": query, "text": text}) + "\n")
    judged = read_folder(folder)
    assert judged.problems.counts() == {
        "duplicate_judgements": 1,
        "judgements_of_unknown_pages": 2,
        "judgements_of_unknown_queries": 1,
        "queries_without_judgements": 1,
        "queries_without_relevant_pages": 2,
        "queries_without_text": 1,
    }
    assert [query.id for query in judged.queries] == [f"q{i}" for i in range(8)]
    assert any("2 queries have no relevant page in the corpus" in line for line in judged.problems.sentences())


def test_a_choice_of_queries_leaves_the_others_out_without_a_word(folder: Path) -> None:
    write_lines(folder / "some.jsonl", [{"_id": "q1", "text": "beta valve"}, {"_id": "q3", "text": "delta motor"}])
    for queries in ("some.jsonl", folder / "some.jsonl"):
        judged = read_folder(folder, queries)
        assert [query.id for query in judged.queries] == ["q1", "q3"]
        assert judged.problems.sentences() == []
        assert judged.queries_file == "some.jsonl"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", "", "The corpus of tiny-dev is empty"),
        ("corpus.jsonl", '{"_id": "p0", "image": "images/none.png"}', "which is not there"),
        ("corpus.jsonl", '{"_id": "p0"}', 'names neither "image" nor "pdf"'),
        ("corpus.jsonl", "{oops", "corpus.jsonl:1 is not JSON"),
        ("corpus.jsonl", '{"id": 3}', "corpus.jsonl:1 has no _id"),
        ("queries.jsonl", '{"_id": "zz", "text": "x"}', "No query of tiny-dev can be scored"),
        ("queries.jsonl", '{"_id": "q0", "text": "x"}\n{"_id": "q0", "text": "y"}', "q0 a second time"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0 p0 1", "test.tsv:2 is not query-id"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\tp0\t1\nq0\tp0\t2", "as 2, an earlier line as 1"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "8 queries have no judgement"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_sentence(folder: Path, file: str, content: str, message: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(JudgementError, match=message):
        read_folder(folder)


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(JudgementError, match="There is no folder"):
        read_folder(tmp_path / "nothing")
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(JudgementError, match="a BEIR folder needs it"):
        read_folder(folder)


def test_a_page_twice_in_the_corpus_is_refused(folder: Path) -> None:
    rows = (folder / "corpus.jsonl").read_text()
    (folder / "corpus.jsonl").write_text(rows + rows.split("\n")[0] + "\n")
    with pytest.raises(JudgementError, match="p0 a second time"):
        read_folder(folder)


def test_line_separators_inside_json_do_not_split_a_line(folder: Path) -> None:
    rows = (folder / "queries.jsonl").read_text().replace("alpha pump", "alpha\u2028pump\u0085")
    (folder / "queries.jsonl").write_text(rows, encoding="utf-8")
    assert read_folder(folder).queries[0].text == "alpha\u2028pump\u0085"


def test_pages_of_a_pdf_have_pictures_text_and_their_own_keys(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set")
    write_pdf(folder / "two.pdf", ["first page words", "second page words"])
    write_lines(folder / "corpus.jsonl", [{"_id": f"p{i}", "pdf": "two.pdf", "page": i} for i in range(2)])
    judged = read_folder(folder)
    assert [page.text_layer().strip() for page in judged.pages] == ["first page words", "second page words"]
    assert judged.pages[0].image().size == (400, 200)
    assert judged.pages[0].key() != judged.pages[1].key()
    write_lines(folder / "corpus.jsonl", [{"_id": "p0", "pdf": "two.pdf", "page": 2}])
    with pytest.raises(JudgementError, match="which has 2 pages"):
        read_folder(folder)


def test_a_slice_keeps_whole_queries_only(folder: Path) -> None:
    part = read_folder(folder).limited(3)
    assert [page.id for page in part.pages] == ["p0", "p1", "p2"]
    assert [query.id for query in part.queries] == ["q1", "q2", "q4", "q5", "q6"]  # q0's second page is p5
    assert part.slice_of == (6, 8)
    assert part.grades["q1"] == {"p1": 2}
