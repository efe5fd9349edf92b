"""Do paraphrases of one intent select the same variant, and different intents different ones? P_same and P_cross.

For page i, v[i,a,m] is the variant that formulation m of intent a scores highest on that page.

    P_same  = 1/(2N) sum_i sum_a  [v[i,a,1] = v[i,a,2]]
    P_cross = 1/(4N) sum_i sum_{m,n} [v[i,1,m] = v[i,2,n]]

A JSONL file holds the questions: {"page", "region", "intent", "formulation", "text", "verified"} with intent and
formulation 1 or 2. A page counts when all four are there and verified; the others are counted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.errors import JudgementError
from varsdoc.evaluation.evaluate import encode_queries
from varsdoc.evaluation.judged import JudgedSet
from varsdoc.evaluation.retrievers.protocol import Retriever
from varsdoc.evaluation.scorer import score_cached
from varsdoc.evaluation.statistics import bootstrap_interval

SLOTS = ((1, 1), (1, 2), (2, 1), (2, 2))  # (intent, formulation)


@dataclass(frozen=True)
class IntentSet:
    """Verified questions: page id -> text by (intent, formulation)."""

    pages: dict[str, dict[tuple[int, int], str]]
    unverified: int = 0
    incomplete: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Agreement:
    """The two probabilities, with intervals over pages, and what chance alone would give."""

    p_same: float
    p_cross: float
    p_same_interval: tuple[float, float]
    p_cross_interval: tuple[float, float]
    chance: float  # that two independent draws from the observed usage agree
    pages: int
    unverified: int
    incomplete: int
    unknown: int

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def agreement(winners: Mapping[tuple[int, int], Sequence[int]]) -> tuple[list[float], list[float]]:
    """Per page: share of same-intent pairs and of cross-intent pairs that select one variant.

    winners  (intent, formulation) -> the variant of each page

    Two pages. The first keeps its variant under paraphrase and changes it with the intent; the second never changes.

    >>> same, cross = agreement({(1, 1): [0, 2], (1, 2): [0, 2], (2, 1): [1, 2], (2, 2): [1, 2]})
    >>> same, cross
    ([1.0, 1.0], [0.0, 1.0])
    """
    v = {slot: np.asarray(values) for slot, values in winners.items()}
    same = np.mean([v[a, 1] == v[a, 2] for a in (1, 2)], axis=0)
    cross = np.mean([v[1, m] == v[2, n] for m in (1, 2) for n in (1, 2)], axis=0)
    return same.tolist(), cross.tolist()


def read_intents(path: str | Path) -> IntentSet:
    """Read and check the questions."""
    found: dict[str, dict[tuple[int, int], str]] = {}
    unverified = 0
    try:
        rows = Path(path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise JudgementError(f"{path} cannot be read ({error.strerror}).") from error
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        line = _line(row, f"{path}:{number}")
        if line["verified"] is not True:
            unverified += 1
            continue
        slots = found.setdefault(str(line["page"]), {})
        slot = (line["intent"], line["formulation"])
        if slot in slots:
            raise JudgementError(f"{path}:{number} has intent {slot[0]}, formulation {slot[1]} of its page twice.")
        slots[slot] = line["text"]
    whole = {page: slots for page, slots in found.items() if len(slots) == len(SLOTS)}
    if not whole:
        raise JudgementError(
            f"{path} has no page with two verified formulations of two intents ({unverified} lines are not verified); "
            'read them and set "verified": true.'
        )
    return IntentSet(whole, unverified, sorted(found.keys() - whole.keys()))


def _line(row: str, where: str) -> dict[str, Any]:
    try:
        line = json.loads(row)
        good = (
            line["intent"] in (1, 2)
            and line["formulation"] in (1, 2)
            and isinstance(line["text"], str)
            and line["text"].strip()
            and {"page", "region", "verified"} <= line.keys()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JudgementError(f"{where} lacks page, region, intent, formulation, text or verified.") from error
    if not good:
        raise JudgementError(f"{where} needs intent and formulation 1 or 2, a text, and region and verified.")
    return dict(line)


def measure_agreement(
    retriever: Retriever, questions: IntentSet, judged: JudgedSet, keys: Sequence[str], cache: Cache
) -> Agreement:
    """Score the four questions against their own page and count. Pages must be in the cache already."""
    place = dict(zip((page.id for page in judged.pages), keys, strict=True))
    pages = [page for page in questions.pages if page in place]
    if not pages:
        raise JudgementError(f"No page of the intents file is in the corpus of {judged.name}.")
    space = retriever.identity.space
    winners: dict[tuple[int, int], list[int]] = {slot: [] for slot in SLOTS}
    texts = [questions.pages[page][slot] for page in pages for slot in SLOTS]
    vectors = encode_queries(retriever, texts, cache, shown=False)
    for i, page in enumerate(pages):
        own = score_cached(vectors[4 * i : 4 * i + 4], cache, space, [place[page]]).variants  # (4, 1, K)
        assert own is not None
        for slot, winner in zip(SLOTS, own[:, 0].argmax(-1).tolist(), strict=True):
            winners[slot].append(winner)
    same, cross = agreement(winners)
    usage = np.bincount(np.concatenate(list(winners.values()))) / (4 * len(pages))
    return Agreement(
        float(np.mean(same)),
        float(np.mean(cross)),
        bootstrap_interval(same),
        bootstrap_interval(cross),
        float((usage**2).sum()),
        len(pages),
        questions.unverified,
        len(questions.incomplete),
        len(questions.pages) - len(pages),
    )
