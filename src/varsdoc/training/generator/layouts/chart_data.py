"""What a chart shows before it is drawn: subject, unit, categories, series and believable numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .. import entities as e
from ..sheet import Sheet
from ..vocabulary import ANSWER_SCALES, COUNTRY, GROUPS, MONTH, REGION, STATE_NAME, TRADES

KINDS = (
    "bar",
    "bar",
    "grouped",
    "grouped",
    "stacked",
    "hbar",
    "hbar",
    "hstacked",
    "hgrouped",
    "line",
    "line",
    "line",
    "pie",
    "scatter",
)
QUANTITIES = ("Most", "Few", "Half of", "A majority of", "Many", "One-in-five")
PEOPLE = ("Americans", "Europeans", "adults", "workers", "smokers", "voters", "students", "consumers", "patients")


@dataclass
class Plan:
    kind: str
    subject: str
    unit: str
    category_name: str
    categories: list[str]
    series: list[str]
    values: list[list[float]]  # one list per series
    decimals: int
    title: str
    subtitle: str

    def shown(self, value: float, style: str) -> str:
        """A value label: 1,234 or 1234, with % where the chart counts percent."""
        text = f"{value:,.{self.decimals}f}"
        if style == "plain":
            text = text.replace(",", "")
        return text + "%" if self.unit == "%" and style != "bare" else text

    @property
    def top(self) -> float:
        if self.kind in ("stacked", "hstacked"):
            return max(sum(column) for column in zip(*self.values, strict=True))
        return max(max(row) for row in self.values)


def measure(sheet: Sheet) -> tuple[str, str]:
    pool = TRADES[4].measures if sheet.chance(0.6) else sheet.topic.trade.measures
    return sheet.rng.choice(pool)


def time_axis(rng: random.Random) -> tuple[str, list[str]]:
    year = rng.randint(1965, 2021)
    kind = rng.random()
    if kind < 0.65:
        count = rng.randint(3, 16)
        return "year", [str(y) for y in range(year - count + 1, year + 1)]
    if kind < 0.75:
        step = rng.choice((2, 5, 10))
        return "year", [str(year - step * i) for i in range(rng.randint(3, 8), -1, -1)]
    if kind < 0.85:
        return "month", [
            f"{MONTH[m][:3]} {year}" if rng.random() < 0.3 else MONTH[m][:3] for m in range(rng.randint(4, 12))
        ]
    if kind < 0.93:
        return "quarter", [f"Q{q} '{(year + i) % 100:02d}" for i in range(rng.randint(1, 3)) for q in range(1, 5)]
    return "season", [f"{y}/{(y + 1) % 100:02d}" for y in range(year - rng.randint(3, 9), year)]


def named_axis(sheet: Sheet) -> tuple[str, list[str]]:
    rng, topic = sheet.rng, sheet.topic
    kind = rng.random()
    if kind < 0.3:
        return "country", rng.sample(COUNTRY, rng.randint(2, 13))
    if kind < 0.36:
        return "state", rng.sample(STATE_NAME, rng.randint(3, 12))
    if kind < 0.45:
        return "region", rng.sample(REGION, rng.randint(3, 7))
    if kind < 0.65:
        return "group", list(rng.choice(GROUPS))
    if kind < 0.75:
        return "company", [e.company(rng).rsplit(" ", 1)[0] for _ in range(rng.randint(3, 8))]
    if kind < 0.9:
        rows = rng.choice(TRADES).rows
        return "category", rng.sample(rows, rng.randint(3, 9))
    return "answer", list(dict.fromkeys(topic.phrase().capitalize() for _ in range(rng.randint(3, 8))))


def walk(rng: random.Random, count: int, low: float, high: float) -> list[float]:
    """A line that wanders as real series do: a drift, some noise, now and then a shock."""
    value, drift = rng.uniform(low, high), rng.uniform(-0.5, 0.8) * (high - low) / max(6, count)
    out = []
    for _ in range(count):
        value += drift + rng.gauss(0, 0.06) * (high - low)
        if rng.random() < 0.06:
            value += rng.choice((-0.3, 0.3)) * (high - low)
        out.append(min(max(value, 0.05 * low + 0.01), 1.6 * high))
    return out


def make_plan(sheet: Sheet, kind: str = "") -> Plan:
    rng = sheet.rng
    kind = kind or rng.choice(KINDS)
    subject, unit = measure(sheet)
    timed = kind in ("line", "scatter") or (kind in ("bar", "stacked", "grouped") and sheet.chance(0.6))
    category_name, categories = time_axis(rng) if timed else named_axis(sheet)
    if kind in ("grouped", "stacked", "hstacked", "hgrouped") or (kind == "line" and sheet.chance(0.65)):
        series = series_names(sheet, kind, category_name)
    else:
        series = [subject]
    count = len(categories)
    top = rng.uniform(20, 95) if unit == "%" else 10 ** rng.uniform(0.3, 4.6)
    low = top * rng.uniform(0.05, 0.7)
    if kind in ("line", "scatter"):
        values = [walk(rng, count, low, top) for _ in series]
    else:
        values = [[rng.uniform(low, top) for _ in range(count)] for _ in series]
    if len(series) == 1 and kind in ("bar", "hbar") and not timed and sheet.chance(0.7):
        values[0].sort(reverse=True)
    if kind == "pie" or (kind in ("stacked", "hstacked") and sheet.chance(0.7)):
        unit = "%"
        values = shares(values, kind)
    decimals = 0 if top > 200 or sheet.chance(0.4) else rng.choice((1, 1, 2))
    values = [[round(min(v, 100.0) if unit == "%" else v, decimals) for v in row] for row in values]
    title, subtitle = titles(sheet, subject, unit, category_name, categories, series)
    return Plan(kind, subject, unit, category_name, categories, series, values, decimals, title, subtitle)


def shares(values: list[list[float]], kind: str) -> list[list[float]]:
    """Make the parts of a whole sum to 100."""
    if kind == "pie":
        total = sum(values[0])
        return [[100 * v / total for v in values[0]]]
    totals = [sum(column) for column in zip(*values, strict=True)]
    return [[100 * v / t for v, t in zip(row, totals, strict=True)] for row in values]


def series_names(sheet: Sheet, kind: str, category_name: str) -> list[str]:
    rng = sheet.rng
    draw = rng.random()
    if (kind == "line" and draw < 0.5) or (draw < 0.15 and category_name != "country"):
        return rng.sample(COUNTRY, rng.randint(2, 6))
    if draw < 0.35 and category_name != "year":
        year = rng.randint(1990, 2021)
        return [str(year - i) for i in range(rng.randint(2, 3))]
    pool = rng.choice((*ANSWER_SCALES, *GROUPS[:6], GROUPS[8]))
    return list(pool[: rng.randint(2, 5)])


def titles(
    sheet: Sheet, subject: str, unit: str, category_name: str, categories: list[str], series: list[str]
) -> tuple[str, str]:
    rng, topic = sheet.rng, sheet.topic
    place = rng.choice(STATE_NAME if rng.random() < 0.2 else COUNTRY)
    ends = f"{categories[0]} to {categories[-1]}" if category_name in ("year", "month", "season") else f"{e.year(rng)}"
    forms = (
        f"{subject} in {place} from {ends}",
        f"{subject} by {category_name}, {ends}",
        f"{subject}: {topic.phrase()}",
        f"{topic.title()}",
        f"{categories[-1]} and {categories[0]} differ in {subject.lower()}",
        f"{rng.choice(QUANTITIES)} {rng.choice(PEOPLE)} {rng.choice(topic.trade.verbs)} {rng.choice(topic.subjects)}",
        f"Views of {rng.choice(topic.subjects)} vary by {category_name}",
    )
    lead = (
        rng.choice(("% who say", "% of adults who say", "Percentage of people who think", "Share saying"))
        if unit == "%"
        else f"{subject} of"
    )
    tail = f"{rng.choice(topic.subjects)} {rng.choice(('is', 'should be', 'will be'))} {rng.choice(topic.adjectives)}"
    return rng.choice(forms), (f"{lead} {tail}" if sheet.chance(0.6) else f"{subject}, {unit or 'units'}, {ends}")
