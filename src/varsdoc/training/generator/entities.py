"""Random names, dates, amounts, numbers: the particulars that make one document differ from the next."""

from __future__ import annotations

import random

from . import vocabulary as v
from .coined import coin, initials
from .lexicon import load_lexicon

LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


def first_name(rng: random.Random) -> str:
    """Mostly from the list, and a few of any sound."""
    return rng.choice(v.FIRST) if rng.random() < 0.8 else coin(rng, 3, 8).title()


def surname(rng: random.Random) -> str:
    """From the short list, from the words that are names, or invented."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(v.LAST)
    if kind < 0.55:
        return load_lexicon().names.draw(rng, 1)[0].title()
    made = coin(rng, 4, 10).title()
    return rng.choice(("Mc", "O'", "Van ", "De ")) + made if rng.random() < 0.06 else made


def place(rng: random.Random) -> str:
    """A town."""
    kind = rng.random()
    if kind < 0.65:
        return rng.choice(v.CITY)
    if kind < 0.8:
        return load_lexicon().names.draw(rng, 1)[0].title()
    return coin(rng, 4, 9).title() + rng.choice(("", "", "", "ville", "ton", " City", " Park", " Hills"))


def person(rng: random.Random) -> str:
    first, last = first_name(rng), surname(rng)
    form = rng.random()
    if form < 0.45:
        return f"{first} {last}"
    if form < 0.7:
        return f"{first} {rng.choice(LETTERS)}. {last}"
    if form < 0.85:
        return f"{rng.choice(('Dr.', 'Mr.', 'Ms.', 'Mrs.', 'Prof.'))} {first[0]}. {last}"
    return f"{first[0]}. {rng.choice(LETTERS)}. {last}"


def company(rng: random.Random) -> str:
    core = rng.choice(v.COMPANY_CORE)
    form = rng.random()
    if form < 0.15:
        return f"{surname(rng)} {core}"
    if form < 0.3:
        return f"{surname(rng)} & {surname(rng)} {rng.choice(v.COMPANY_TAIL)}"
    if form < 0.42:
        return f"{core} {rng.choice(v.BODY)} of {rng.choice(v.COUNTRY + v.CITY)}"
    if form < 0.54:
        return f"{initials(rng)} {rng.choice((core, rng.choice(v.BODY), rng.choice(v.COMPANY_TAIL)))}"
    if form < 0.7:
        return f"{coin(rng, 4, 10).title()} {rng.choice((core, rng.choice(v.COMPANY_TAIL)))}"
    return f"{rng.choice(v.COMPANY_HEAD)} {core} {rng.choice(v.COMPANY_TAIL)}"


def address(rng: random.Random) -> tuple[str, str]:
    kind = rng.choice(("Street", "Avenue", "St.", "Ave.", "Road", "Blvd", "Drive"))
    name = rng.choice(v.STREET) if rng.random() < 0.6 else surname(rng)
    street = f"{rng.randint(1, 9899)} {name} {kind}"
    if rng.random() < 0.2:
        street = f"P.O. Box {rng.randint(10, 9999)}"
    return street, f"{place(rng)}, {rng.choice(v.STATE)} {rng.randint(10000, 99899)}"


def phone(rng: random.Random) -> str:
    area, mid, end = rng.randint(201, 989), rng.randint(200, 999), rng.randint(0, 9999)
    form = rng.choice(("({}) {}-{:04d}", "{}-{}-{:04d}", "{}/{}-{:04d}", "+1 {} {} {:04d}"))
    return form.format(area, mid, end)


def year(rng: random.Random) -> int:
    return rng.randint(1952, 2024)


def date(rng: random.Random) -> str:
    y, m, d = year(rng), rng.randint(1, 12), rng.randint(1, 28)
    name = v.MONTH[m - 1]
    forms = (
        f"{name} {d}, {y}",
        f"{d} {name} {y}",
        f"{m}/{d}/{y % 100:02d}",
        f"{m:02d}-{d:02d}-{y}",
        f"{d:02d}.{m:02d}.{y}",
        f"{name[:3]}. {d}, {y}",
        f"{d}{name[:3].upper()}{y % 100:02d}",
        f"{y}-{m:02d}-{d:02d}",
        f"{name} {y}",
    )
    return rng.choice(forms)


def identifier(rng: random.Random) -> str:
    n = rng.randint(0, 999999)
    forms = (
        f"{n}",
        f"{rng.choice(LETTERS)}{rng.choice(LETTERS)}-{n}",
        f"{rng.randint(10, 99)}-{n % 10000:04d}",
        f"{rng.choice(LETTERS)}{n % 10000}",
        f"{50000000 + n * 37 % 9999999}",
        f"No. {n % 10000}",
        f"{n % 1000:03d}/{rng.randint(70, 99)}",
    )
    return rng.choice(forms)


def money(rng: random.Random) -> str:
    value = 10 ** rng.uniform(0, 7)
    sign = rng.choice(("$", "$", "$", "£", "Rs. ", "€", "US$"))
    if value > 1e5 and rng.random() < 0.3:
        return f"{sign}{value / 1e6:.1f} million"
    return f"{sign}{value:,.2f}" if rng.random() < 0.6 else f"{sign}{value:,.0f}"


def percent(rng: random.Random) -> str:
    value = rng.uniform(0.1, 99)
    return rng.choice((f"{value:.1f}%", f"{value:.0f}%", f"{value:.0f} percent", f"{value:.2f}%"))


def quantity(rng: random.Random, unit: str) -> str:
    value = 10 ** rng.uniform(0, 4)
    shown = f"{value:,.0f}" if value >= 100 or rng.random() < 0.3 else f"{value:.1f}"
    return f"{shown}%" if unit == "%" else f"{shown} {unit}".strip()


def web(rng: random.Random) -> str:
    site = f"{rng.choice(v.COMPANY_HEAD)}{rng.choice(v.COMPANY_CORE)}".lower().replace(" ", "")
    return f"www.{site}.{rng.choice(('com', 'org', 'gov', 'co.uk', 'edu'))}"


def email(rng: random.Random) -> str:
    return f"{first_name(rng)[0]}.{surname(rng)}@{web(rng)[4:]}".lower().replace("'", "").replace(" ", "")


def archive_source(rng: random.Random) -> str:
    """The line that digital archives stamp under a scan."""
    tag = "".join(rng.choice("bcdfghjklmnpqrstvwxyz") for _ in range(4)) + f"{rng.randint(0, 299):04d}"
    site = rng.choice(("industrydocuments.ucsf.edu", "industrydocuments.ucsf.edu", web(rng)[4:]))
    return f"Source: https://www.{site}/docs/{tag}"
