"""Words that no list has: invented ones, and initials.

What tells one real page from the next are names, and lists of names run out: a reader that saw a hundred surnames knows
those hundred by their looks. Invented words follow the letters of English (three at a time), so each must be spelt out.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import accumulate

from .lexicon import load_lexicon

LETTERS = "ABCDEFGHIJKLMNOPRSTUVW"
END = "."
Next = dict[str, tuple[str, list[int]]]  # two letters -> letters that follow, with cumulative weights


@lru_cache(maxsize=1)
def _chain() -> Next:
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word in load_lexicon().every.words:
        if word.isascii() and word.isalpha() and len(word) > 3:
            padded = f"^^{word}{END}"
            for i in range(len(padded) - 2):
                counted[padded[i : i + 2]][padded[i + 2]] += 1
    return {pair: ("".join(letters), list(accumulate(letters.values()))) for pair, letters in counted.items()}


def coin(rng: random.Random, least: int = 4, most: int = 10) -> str:
    """An invented word in small letters.

    >>> word = coin(random.Random(1))
    >>> 4 <= len(word) <= 10 and word.isalpha() and word == word.lower()
    True
    """
    chain = _chain()
    while True:
        word, pair = "", "^^"
        while len(word) <= most:
            letters, weights = chain[pair]
            letter = rng.choices(letters, cum_weights=weights)[0]
            if letter == END:
                break
            word, pair = word + letter, pair[1] + letter
        if least <= len(word) <= most:
            return word


def initials(rng: random.Random) -> str:
    """What bodies and firms call themselves, of three letters or more.

    >>> made = initials(random.Random(1))
    >>> 3 <= len(made) <= 5 and made.isupper()
    True
    """
    return "".join(rng.choices(LETTERS, k=rng.choice((3, 3, 4, 4, 4, 5))))
