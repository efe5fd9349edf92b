"""Plausible sentences without a download: a topic per document, a small grammar, statements that can be asked about.

A `Topic` fixes the trade, people, organisations and some fifty content words of one document, so that its sentences
belong together and two documents of one trade still differ. Sentences carry `facts`: questions whose answer is a
range of their words. A folder of plain-text files, if given, supplies real sentences beside the made ones.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import entities as e
from .coined import coin, initials
from .lexicon import gerund, load_lexicon, past, plural
from .vocabulary import COUNTRY, JOB, REGION, TRADES, Trade

Range = tuple[int, int]

# Statement, question, answer slot. Slots: p person, j job, c company, d date, m money, q percent, l place, s subject,
# n noun, y year, k count with unit, i identifier, x measure.
STATEMENTS = (
    ("{p} , {j} of {c} , presented the results in {l} .", "Who is the {j} of {c}?", "p"),
    ("{p} was appointed {j} of {c} on {d} .", "When was {p} appointed {j}?", "d"),
    ("The meeting of {c} was held in {l} on {d} .", "Where was the meeting of {c} held?", "l"),
    ("The meeting on {s} will take place on {d} at {l} .", "When will the meeting on {s} take place?", "d"),
    ("{c} paid {m} for the {s} in {y} .", "How much did {c} pay for the {s}?", "m"),
    ("About {q} of the {s} was due to {n} .", "What percentage of the {s} was due to {n}?", "q"),
    ("In {y} , {q} of all {n} were related to {s} .", "What percent of {n} were related to {s} in {y}?", "q"),
    ("The {s} project is located in {l} and employs {k} .", "Where is the {s} project located?", "l"),
    ("The {x} of the {s} rose to {k} in {y} .", "What was the {x} of the {s} in {y}?", "k"),
    ("Mean {x} was {k} in the {n} group .", "What was the mean {x} in the {n} group?", "k"),
    ("{p} graduated from the University of {l} in {y} .", "From which university did {p} graduate?", "l"),
    ("The {s} was first described by {p} .", "Who first described the {s}?", "p"),
    ("The total budget for {n} amounts to {m} .", "What is the total budget for {n}?", "m"),
    ("Please send all {n} to {p} at {c} before {d} .", "To whom should the {n} be sent?", "p"),
    ("Contract No. {i} with {c} expires on {d} .", "When does the contract with {c} expire?", "d"),
    ("The headquarters of {c} are in {l} .", "Where are the headquarters of {c}?", "l"),
    ("{c} was founded by {p} in {y} .", "Who founded {c}?", "p"),
    (
        "Samples of {s} were collected from {k} between {y} and the following year .",
        "When were samples of {s} collected?",
        "y",
    ),
    ("{p} is responsible for the {s} .", "Who is responsible for the {s}?", "p"),
    ("The purpose of this {n} is to describe the {s} .", "What is the purpose of this {n}?", "s"),
)
# N noun, P plural, A adjective, V verb, D past, G gerund, R adverb, S subject phrase, T plural subject, C company, L
# place, Y year, Q %.
PATTERNS = (
    """
The A S was D by the N .|We D the S and the A N .|P of the S are R D in A P .|This N V the A S of each N .
G the S can V the N by Q .|In Y , the S D more than the A N .|It is A to V the S before the N is D .
If the N is A , the S may V .|The S D a A N , and the P were D .|Most T are A , but some P remain A .
According to C , the A S will V .|No A N was D in the S .|The P D R from the N to the A S .|T and A P must be D .
One A N of the S was D at L .|Several P have D that the S is A .|Further P on the S are A .|How A is the S ?
There were A differences between the S and the N .|By Y the N of A P had D .|Under these P , A T V R .
As shown above , the S D the N of A P .|Both the S and the N were D R .|However , A P do not V the S .
G A P requires a A S .|The results suggest that A T V the N .|Each N should be D with the A N of the S .
Since Y , L has D its A S .|The N , which D the S , is A .|Do not V the N unless the S is A .
""".strip()
    .replace("\n", "|")
    .split("|")
)
TITLES = (
    "{A} {S}",
    "The {S} and the {N}",
    "{S} and {S}",
    "Report on {A} {S}",
    "{G} {S}: {N} and {N}",
    "{S} of {L}",
    "{A} {N} in {L}",
    "Effects of {N} on {S}",
    "{S}: A {A} {N}",
    "{N} {N} Review",
    "{Y} {S} Summary",
    "A {A} Approach to {G} {S}",
    "{S} Program",
    "Status of the {S}",
    "{C}",
    "Proposal for {A} {S}",
    "{N} Guidelines",
    "Why {S} {V}s",
    "{S} by {N}, {Y}",
)


@dataclass
class Sentence:
    tokens: list[str]
    facts: list[tuple[str, list[Range], Range]] = field(default_factory=list)


class Topic:
    """The vocabulary of one document."""

    def __init__(self, rng: random.Random, trade: Trade | None = None, texts: tuple[str, ...] = ()) -> None:
        lexicon = load_lexicon()
        self.rng, self.texts = rng, texts
        self.trade = trade or rng.choice(TRADES)
        self.subjects = rng.sample(self.trade.subjects, 7)
        nouns = lexicon.nouns.draw(rng, 22)
        # Trade names, substances, terms of art: every document has words that no list has.
        nouns += [initials(rng) if rng.random() < 0.25 else coin(rng, 4, 12) for _ in range(4)]
        rng.shuffle(nouns)
        self.nouns = nouns + [subject.split()[-1] for subject in self.subjects[:4]]
        adjectives = lexicon.adjectives.draw(rng, 14)
        self.adjectives = adjectives + rng.sample(self.trade.adjectives, 5)
        self.verbs = lexicon.verbs.draw(rng, 12) + rng.sample(self.trade.verbs, 5)
        self.adverbs = lexicon.adverbs.draw(rng, 5)
        # Some subjects of this document's own, so that two documents of a trade talk of different things.
        self.subjects += [f"{rng.choice(self.adjectives)} {rng.choice(nouns)}", f"{nouns[0]} {nouns[1]}", nouns[2]]
        self.people = [e.person(rng) for _ in range(3)]
        self.companies = [e.company(rng) for _ in range(2)]
        self.places = [e.place(rng), rng.choice(COUNTRY), rng.choice(REGION)]
        self.places += [name.title() for name in lexicon.names.draw(rng, 2)]
        self.year = e.year(rng)
        self.measure = self.trade.measures[0]

    def symbol(self, letter: str) -> str:
        rng = self.rng
        if letter == "N":
            return rng.choice(self.nouns)
        if letter == "P":
            return plural(rng.choice(self.nouns))
        if letter == "A":
            return rng.choice(self.adjectives)
        if letter in "VDG":
            verb = rng.choice(self.verbs)
            return verb if letter == "V" else past(verb) if letter == "D" else gerund(verb)
        if letter == "R":
            return rng.choice(self.adverbs)
        if letter in "ST":
            subject = rng.choice(self.subjects)
            return subject if letter == "S" else plural(subject)
        if letter == "C":
            return rng.choice(self.companies)
        if letter == "L":
            return rng.choice(self.places)
        return str(self.year + rng.randint(-6, 2)) if letter == "Y" else e.percent(rng)

    def _slot(self, letter: str) -> str:
        rng = self.rng
        made = {
            "p": lambda: rng.choice(self.people),
            "j": lambda: rng.choice(JOB),
            "c": lambda: rng.choice(self.companies),
            "d": lambda: e.date(rng),
            "m": lambda: e.money(rng),
            "q": lambda: e.percent(rng),
            "l": lambda: rng.choice(self.places),
            "s": lambda: self.symbol("S"),
            "n": lambda: self.symbol("P"),
            "y": lambda: self.symbol("Y"),
            "i": lambda: e.identifier(rng),
            "x": lambda: self.measure[0].lower(),
            "k": lambda: e.quantity(rng, self.measure[1]),
        }
        return made[letter]()

    def statement(self) -> Sentence:
        """A sentence that answers a question."""
        form, question, answer = self.rng.choice(STATEMENTS)
        # What is measured and its unit belong together.
        self.measure = self.rng.choice(self.trade.measures)
        tokens: list[str] = []
        ranges: dict[str, Range] = {}
        for piece in form.split():
            if piece in ",.":
                tokens[-1] += piece
            elif piece.startswith("{"):
                words = self._slot(piece[1]).split()
                ranges[piece[1]] = (len(tokens), len(tokens) + len(words))
                tokens += words
            else:
                tokens.append(piece)
        slots = re.findall(r"\{(\w)\}", question)
        for place, letter in enumerate(slots):
            question = question.replace("{" + letter + "}", "{" + "abcdef"[place] + "}")
        tokens[0] = tokens[0][:1].upper() + tokens[0][1:]
        return Sentence(tokens, [(question, [ranges[letter] for letter in slots], ranges[answer])])

    def sentence(self) -> Sentence:
        rng = self.rng
        kind = rng.random()
        if self.texts and kind < 0.5:
            return Sentence(rng.choice(self.texts).split())
        if kind > 0.82:
            return self.statement()
        tokens: list[str] = []
        parts = [rng.choice(PATTERNS)]
        if rng.random() < 0.35:
            joint = rng.choice((", and", ", but", ", because", "; therefore", ", while", "and", "although"))
            parts = [parts[0].rstrip(" .?"), joint, rng.choice(PATTERNS[:14])]
        for piece in " ".join(parts).split():
            if piece in (",", ".", "?", ";"):
                tokens[-1] += piece
            elif len(piece) == 1 and piece in "NPAVDGRSTCLYQ":
                tokens += self.symbol(piece).split()
            else:
                tokens.append(piece.lower() if tokens and piece not in ("I",) else piece)
        for place, token in enumerate(tokens[:-1]):
            if token == "a" and tokens[place + 1][0] in "aeiou":
                tokens[place] = "an"
        first = tokens[0]
        tokens[0] = first[:1].upper() + first[1:]
        if rng.random() < 0.06:
            place = rng.randrange(len(tokens))
            tokens[place] = rng.choice((f"({tokens[place]})", f'"{tokens[place]}"', f"{tokens[place]}*"))
        return Sentence(tokens)

    def paragraph(self, sentences: int) -> list[Sentence]:
        return [self.sentence() for _ in range(sentences)]

    def title(self) -> str:
        form = self.rng.choice(TITLES)
        text = re.sub(r"\{(\w)\}", lambda found: self.symbol(found[1]), form)
        style = self.rng.random()
        if style < 0.6:
            return " ".join(
                w if w in ("of", "on", "and", "the", "in", "to", "for", "by", "a") else w[:1].upper() + w[1:]
                for w in text.split()
            )
        return text[:1].upper() + text[1:]

    def phrase(self) -> str:
        """A few words: a list item, a bullet, a cell."""
        form = self.rng.choice(("A S", "S", "A N", "N of S", "G A P", "V the S", "A P and P", "S N", "G P R"))
        return " ".join(self.symbol(p) if len(p) == 1 else p for p in form.split())


def read_texts(folder: str | Path) -> tuple[str, ...]:
    """Sentences of 4 to 40 words from the .txt files of a folder."""
    sentences = []
    for path in sorted(Path(folder).rglob("*.txt")):
        text = " ".join(path.read_text(encoding="utf-8", errors="ignore").split())
        sentences += [s for s in re.split(r"(?<=[.!?]) ", text) if 4 <= len(s.split()) <= 40]
    if not sentences:
        raise ValueError(f"No sentence found in the .txt files of {folder}: give a folder with plain text, or none.")
    return tuple(sentences)
