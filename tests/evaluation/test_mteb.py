"""ViDoRe's way through MTEB, on a tiny local task in MTEB's own format: its loader, its metrics, its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation_tools import PAGES, QUERIES, WORDS, RandomRetriever, picture

mteb = pytest.importorskip("mteb")

from datasets import Dataset, Features, Image, Value  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models import SearchProtocol  # noqa: E402

from varsdoc.errors import ConfigError, InputError  # noqa: E402
from varsdoc.evaluation.cache import Cache  # noqa: E402
from varsdoc.evaluation.compare import Other  # noqa: E402
from varsdoc.evaluation.evaluate import How, evaluate  # noqa: E402
from varsdoc.evaluation.export_task import export  # noqa: E402
from varsdoc.evaluation.judged import read_folder  # noqa: E402
from varsdoc.evaluation.main_table import lines  # noqa: E402
from varsdoc.evaluation.mteb_files import write_mteb  # noqa: E402
from varsdoc.evaluation.mteb_search import SearchModel  # noqa: E402
from varsdoc.evaluation.published import BENCHMARKS  # noqa: E402
from varsdoc.evaluation.results import SetReport  # noqa: E402
from varsdoc.evaluation.run import Outcome, write_report  # noqa: E402
from varsdoc.evaluation.sweep import sweep  # noqa: E402
from varsdoc.evaluation.vidore import evaluate_task, open_tasks, restrict  # noqa: E402

QUIET = How(shown=False)
LANGUAGES = {"english": ["eng-Latn"], "french": ["fra-Latn"]}


def write_task(root: Path) -> Path:
    """A data set repository as ViDoRe V3's: configs LANGUAGE-corpus, -queries, -qrels, one parquet file each."""
    root.mkdir()
    configs = []
    for language in LANGUAGES:
        asked = [(query, text) for query, (text, spoken) in QUERIES.items() if spoken == language]
        parts = {
            "corpus": Dataset.from_list(
                [{"_id": page, "image": picture(words)} for page, words in zip(PAGES, WORDS, strict=True)],
                features=Features({"_id": Value("string"), "image": Image()}),
            ),
            "queries": Dataset.from_list([{"_id": query, "text": text} for query, text in asked]),
            "qrels": Dataset.from_list(
                [{"query-id": q, "corpus-id": f"p{int(q[1:]) % 4}", "score": 2} for q, _ in asked]
                + ([{"query-id": "q0", "corpus-id": "p5", "score": 1}] if language == "english" else [])
            ),
        }
        for part, rows in parts.items():
            rows.to_parquet(root / f"{language}-{part}.parquet")
            name = f"{language}-{part}"
            configs.append(f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}.parquet\n")
    (root / "README.md").write_text("---\nconfigs:\n" + "".join(configs) + "---\n")
    return root


def local_task(path: Path, name: str = "Vidore3HrRetrieval") -> Any:
    class Local(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=name,
            description="A tiny task.",
            dataset={"path": str(path), "revision": "main"},
            type="DocumentUnderstanding",
            category="t2i",
            eval_splits=["test"],
            eval_langs=LANGUAGES,
            main_score="ndcg_at_10",
            modalities=["text", "image"],
        )

    return Local()


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "hf"))
    return local_task(write_task(tmp_path / "task"))


def test_a_task_gives_our_figures_mtebs_figures_and_mtebs_files(task: Any, tmp_path: Path, folder: Path) -> None:
    retriever, cache = RandomRetriever(), Cache(tmp_path / "c")
    results = {r.judged.name: r for r in evaluate_task(task, retriever, cache, QUIET, tmp_path / "out")}
    assert set(results) == {"Vidore3HrRetrieval/english", "Vidore3HrRetrieval/french"}
    assert retriever.pages_encoded == 6  # the second language finds the pages in the cache

    written = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("Vidore3HrRetrieval.json")]
    assert len(written) == 1
    theirs = {row["hf_subset"]: row for row in written[0]["scores"]["test"]}
    for language in LANGUAGES:
        ours = results[f"Vidore3HrRetrieval/{language}"].mean
        assert theirs[language]["ndcg_at_10"] == pytest.approx(ours["ndcg@10"], abs=1e-5)
        assert theirs[language]["ndcg_at_5"] == pytest.approx(ours["ndcg@5"], abs=1e-5)
        assert theirs[language]["recall_at_10"] == pytest.approx(ours["recall@10"], abs=1e-5)
        assert theirs[language]["map_at_100"] == pytest.approx(ours["map"], abs=1e-5)
    path = next((tmp_path / "out").rglob("Vidore3HrRetrieval.json"))
    assert mteb.results.TaskResult.from_disk(path).task_name == "Vidore3HrRetrieval"
    meta = json.loads(next((tmp_path / "out").rglob("model_meta.json")).read_text())
    assert meta["revision"] == retriever.identity.hash

    # The same pages and judgements as a BEIR folder say the same, language by language.
    beside = evaluate(RandomRetriever(), read_folder(folder), Cache(tmp_path / "c2"), QUIET).to_json()["languages"]
    for language in LANGUAGES:
        assert beside[language]["ndcg@10"] == pytest.approx(
            results[f"Vidore3HrRetrieval/{language}"].mean["ndcg@10"], abs=1e-9
        )
    usage = results["Vidore3HrRetrieval/french"].usage
    assert usage is not None
    assert sum(usage.usage) == pytest.approx(1)


def test_a_judged_folder_is_written_in_mtebs_format_too(folder: Path, tmp_path: Path) -> None:
    retriever, cache = RandomRetriever(), Cache(tmp_path / "c")
    result = evaluate(retriever, read_folder(folder), cache, QUIET)
    write_mteb(result, retriever, cache, tmp_path / "out")
    read = mteb.results.TaskResult.from_disk(next((tmp_path / "out").rglob("tiny-dev.json")))
    row = read.scores["test"][0]
    assert row["ndcg_at_10"] == pytest.approx(result.mean["ndcg@10"], abs=1e-5)
    assert row["recall_at_5"] == pytest.approx(result.mean["recall@5"], abs=1e-5)
    assert row["main_score"] == row["ndcg_at_10"]


def test_the_table_of_a_run_has_both_systems_and_the_published(task: Any, tmp_path: Path) -> None:
    retriever, cache = RandomRetriever(), Cache(tmp_path / "c")
    ours = evaluate_task(task, retriever, cache, QUIET)
    theirs = evaluate_task(task, RandomRetriever(variants=1, name="other"), cache, QUIET)
    outcome = Outcome(
        {r.judged.name: SetReport(r) for r in ours},
        retriever,
        {r.judged.name: Other.of(r) for r in theirs},
        cache,
        "test",
    )
    assert outcome.benchmarks() == ["vidore-v3"]
    rows = {(row.model, row.subset): row for row in outcome.main_table("vidore-v3")}
    mean = {r.judged.name: 100 * r.mean["ndcg@10"] for r in ours}
    assert rows["random, measured", "french"].values[0] == pytest.approx(mean["Vidore3HrRetrieval/french"])
    assert rows["random, measured", "french"].average is None  # seven of eight columns are missing
    assert ("other, measured", "english") in rows
    assert any(row.published for row in rows.values())
    page = write_report(outcome, str(tmp_path / "report")).read_text()
    assert "vidore-v3: NDCG@10 in percent" in page
    assert "VaRS-Doc, published" in page
    assert "six languages" in page


def test_a_task_written_as_a_folder_says_the_same(task: Any, tmp_path: Path) -> None:
    folder = export(task, tmp_path / "folders", shown=False)
    judged = read_folder(folder)
    assert judged.name == "Vidore3HrRetrieval"
    assert (len(judged.pages), len(judged.queries)) == (6, 8)
    found = evaluate(RandomRetriever(), judged, Cache(tmp_path / "c"), QUIET).to_json()["languages"]
    for result in evaluate_task(task, RandomRetriever(), Cache(tmp_path / "c2"), QUIET):
        language = result.judged.name.split("/")[1]
        assert found[language]["ndcg@10"] == pytest.approx(result.mean["ndcg@10"], abs=1e-9)


def test_sweeps_and_baselines_run_on_a_task_too(task: Any, tmp_path: Path) -> None:
    retriever, cache = RandomRetriever(), Cache(tmp_path / "c")
    (result, _) = evaluate_task(task, retriever, cache, QUIET)
    encoded = retriever.pages_encoded
    rows = sweep(retriever, result, cache, ["float16"])
    assert retriever.pages_encoded == encoded
    own = next(row for row in rows if (row.variants, row.aggregation) == (3, "max"))
    assert own.ndcg10 == pytest.approx(result.mean["ndcg@10"], abs=1e-9)


def test_the_search_model_is_mtebs_search_protocol(tmp_path: Path) -> None:
    model = SearchModel(RandomRetriever(), Cache(tmp_path), QUIET)
    assert isinstance(model, SearchProtocol)
    assert not isinstance(model, mteb.models.EncoderProtocol)
    assert model.mteb_model_meta.name == "local/random"


def test_a_subset_of_languages(task: Any, tmp_path: Path) -> None:
    found = evaluate_task(restrict(task, ["french"]), RandomRetriever(), Cache(tmp_path / "c"), QUIET)
    assert [result.judged.name for result in found] == ["Vidore3HrRetrieval/french"]
    with pytest.raises(ConfigError, match="has the languages"):
        restrict(task, ["klingon"])


def test_the_papers_twelve_tasks_are_mtebs() -> None:
    for benchmark, tasks in BENCHMARKS.items():
        opened = open_tasks(benchmark)
        assert [task.metadata.name for task in opened] == list(tasks.values())
        for task in opened:
            alone = task.metadata.name == "Vidore2ESGReportsHLRetrieval"
            assert ("default" in task.hf_subsets) is alone
            assert ("french" in task.hf_subsets) is not alone
    french = open_tasks("vidore-v2", ["french"])
    assert [list(task.hf_subsets) for task in french] == [["french"]] * 3 + [["default"]]
    with pytest.raises(ConfigError, match="no benchmark"):
        open_tasks("vidore-v9")


def test_data_that_is_not_here_is_said_in_a_sentence(tmp_path: Path) -> None:
    absent = local_task(tmp_path / "nothing")
    with pytest.raises(InputError, match="neither in the hub cache nor could it be fetched"):
        evaluate_task(absent, RandomRetriever(), Cache(tmp_path / "c"), QUIET)


def test_published_rows_stand_beside_measured_ones_and_say_their_language() -> None:
    *three, human = BENCHMARKS["vidore-v2"].values()
    measured = {f"{task}/french": {"ndcg@10": 0.5} for task in three} | {f"{human}/default": {"ndcg@10": 0.5}}
    measured |= {f"{task}/english": {"ndcg@10": 0.7} for task in three}
    rows = lines("vidore-v2", measured, "ours")
    ours = {row.subset: row for row in rows if not row.published}
    assert ours["french"].average == pytest.approx(50)
    assert ours["english"].values == pytest.approx([70, 70, 70, 50])
    assert ours["mean of 2 languages"].average == pytest.approx((60 * 3 + 50) / 4)
    published = {row.model: row for row in rows if row.published}
    assert published["ColQwen2.5, published"].values == [63.1, 52.8, 62.4, 68.2]
    assert "French" in published["ColQwen2.5, published"].subset
    assert len(published) == 8


def test_published_averages_are_those_of_their_cells() -> None:
    from varsdoc.evaluation.published import MAIN

    for row in MAIN:
        for cells, printed in (
            (row.v2, row.averages[0]),
            (row.v3, row.averages[1]),
            (row.v2 + row.v3, row.averages[2]),
        ):
            assert sum(cells) / len(cells) == pytest.approx(printed, abs=0.12), row.model
