"""The frequency list: weighted words by part of speech, synonyms, and rule-made inflections."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import accumulate

IRREGULAR = {
    "be": "was",
    "have": "had",
    "do": "did",
    "go": "went",
    "say": "said",
    "make": "made",
    "take": "took",
    "come": "came",
    "see": "saw",
    "know": "knew",
    "get": "got",
    "give": "gave",
    "find": "found",
    "think": "thought",
    "tell": "told",
    "become": "became",
    "show": "showed",
    "leave": "left",
    "feel": "felt",
    "put": "put",
    "bring": "brought",
    "begin": "began",
    "keep": "kept",
    "hold": "held",
    "write": "wrote",
    "stand": "stood",
    "hear": "heard",
    "let": "let",
    "mean": "meant",
    "set": "set",
    "meet": "met",
    "run": "ran",
    "pay": "paid",
    "sit": "sat",
    "speak": "spoke",
    "lie": "lay",
    "lead": "led",
    "read": "read",
    "grow": "grew",
    "lose": "lost",
    "fall": "fell",
    "send": "sent",
    "build": "built",
    "draw": "drew",
    "break": "broke",
    "spend": "spent",
    "cut": "cut",
    "rise": "rose",
    "drive": "drove",
    "buy": "bought",
    "wear": "wore",
    "choose": "chose",
    "sell": "sold",
    "win": "won",
    "feed": "fed",
    "withdraw": "withdrew",
    "repay": "repaid",
}
VOWELS = "aeiou"


def past(verb: str) -> str:
    """
    >>> [past(verb) for verb in ("test", "reduce", "apply", "ship", "send")]
    ['tested', 'reduced', 'applied', 'shipped', 'sent']
    """
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    return _joined(verb, "ed")


def gerund(verb: str) -> str:
    """
    >>> [gerund(verb) for verb in ("test", "reduce", "ship", "agree")]
    ['testing', 'reducing', 'shipping', 'agreeing']
    """
    if verb.endswith("e") and not verb.endswith(("ee", "ye")):
        return verb[:-1] + "ing"
    return verb + "ing" if verb.endswith("y") else _joined(verb, "ing")


def plural(noun: str) -> str:
    """
    >>> [plural(noun) for noun in ("box", "study", "day", "sales", "patient group")]
    ['boxes', 'studies', 'days', 'sales', 'patient groups']
    """
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    if noun.endswith(("ss", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def _joined(verb: str, ending: str) -> str:
    if ending == "ed" and verb.endswith("y") and verb[-2:-1] not in VOWELS:
        return verb[:-1] + "ied"
    short = len(verb) <= 4 and verb[-1] not in VOWELS + "wxy" and verb[-2:-1] in VOWELS and verb[-3:-2] not in VOWELS
    return verb + verb[-1] + ending if short and len(verb) > 2 else verb + ending


@dataclass(frozen=True)
class Shelf:
    """Words with cumulative weights; drawing one is a bisection."""

    words: tuple[str, ...]
    weights: tuple[float, ...]

    def draw(self, rng: random.Random, count: int) -> list[str]:
        return rng.choices(self.words, cum_weights=self.weights, k=count)


@dataclass(frozen=True)
class Lexicon:
    nouns: Shelf
    verbs: Shelf
    adjectives: Shelf
    adverbs: Shelf
    names: Shelf
    every: Shelf
    synonyms: dict[str, tuple[str, ...]]


def _shelf(entries: list[tuple[str, int]]) -> Shelf:
    # Running frequency falls as 1/rank; its 0.4 power shows rare words often enough to be learned.
    weights = tuple(accumulate(10 ** (0.4 * zipf / 100) for _, zipf in entries))
    return Shelf(tuple(word for word, _ in entries), weights)


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The packaged list (made by scripts/make_lexicon.py, which names its sources)."""
    packed = resources.files(__package__).joinpath("lexicon.txt.gz").read_bytes()
    shelves: dict[str, list[tuple[str, int]]] = {letter: [] for letter in "nvarp*"}
    synonyms = {}
    for line in gzip.decompress(packed).decode().splitlines():
        if line.startswith("#"):
            continue
        word, zipf, parts, others = line.split("\t")
        shelves["*"].append((word, int(zipf)))
        if len(word) < 3:
            continue
        for letter in parts:
            shelves[letter].append((word, int(zipf)))
        if others:
            synonyms[word] = tuple(others.split())
    # WordNet calls many function words nouns ("have", "it"): the commonest 120 words are no content words.
    common = {word for word, _ in shelves["*"][:120]}
    nouns, verbs, adjectives, adverbs, names = (_shelf([e for e in shelves[k] if e[0] not in common]) for k in "nvarp")
    return Lexicon(nouns, verbs, adjectives, adverbs, names, _shelf(shelves["*"]), synonyms)
