"""What forms ask for, and how each blank is filled."""

from __future__ import annotations

from collections.abc import Callable

from .. import entities as e
from ..sheet import Sheet
from ..vocabulary import BODY, COUNTRY, JOB

Maker = Callable[[Sheet], str]
LABELS: tuple[tuple[str, Maker], ...] = (
    ("Name", lambda s: e.person(s.rng)),
    ("Date", lambda s: e.date(s.rng)),
    ("Telephone No.", lambda s: e.phone(s.rng)),
    ("Address", lambda s: e.address(s.rng)[0]),
    ("City & State", lambda s: e.address(s.rng)[1].rsplit(" ", 1)[0]),
    ("Zip Code", lambda s: str(s.rng.randint(10000, 99999))),
    ("Account Number", lambda s: e.identifier(s.rng)),
    ("Date of Birth", lambda s: e.date(s.rng)),
    ("Company", lambda s: e.company(s.rng)),
    ("Position", lambda s: s.rng.choice(JOB)),
    ("Department", lambda s: f"{s.topic.nouns[0].title()} {s.rng.choice(BODY)}"),
    ("Requested By", lambda s: e.person(s.rng)),
    ("Approved By", lambda s: e.person(s.rng)),
    ("Amount", lambda s: e.money(s.rng)),
    ("Check Amount", lambda s: e.money(s.rng)),
    ("Invoice No.", lambda s: e.identifier(s.rng)),
    ("Invoice Date", lambda s: e.date(s.rng)),
    ("Contract Subject", lambda s: s.topic.title()),
    ("Study Number", lambda s: e.identifier(s.rng)),
    ("Project Title", lambda s: s.topic.title()),
    ("Brand Name", lambda s: e.company(s.rng)),
    ("Weight", lambda s: e.quantity(s.rng, "kg")),
    ("Height", lambda s: e.quantity(s.rng, "cm")),
    ("Sex", lambda s: s.rng.choice(("Male", "Female", "M", "F"))),
    ("Age", lambda s: str(s.rng.randint(18, 88))),
    ("Country", lambda s: s.rng.choice(COUNTRY)),
    ("Place of Birth", lambda s: e.place(s.rng)),
    ("Supplier", lambda s: e.company(s.rng)),
    ("Ship Date", lambda s: e.date(s.rng)),
    ("Purchase Order No.", lambda s: e.identifier(s.rng)),
    ("Type of Change", lambda s: s.topic.phrase()),
    ("Social Security No.", lambda s: f"{s.rng.randint(100, 799)}-{s.rng.randint(10, 99)}-{s.rng.randint(1000, 9999)}"),
    ("Fax", lambda s: e.phone(s.rng)),
    ("E-mail", lambda s: e.email(s.rng)),
    ("Effective Date", lambda s: e.date(s.rng)),
    ("Departure Date", lambda s: e.date(s.rng)),
    ("Room No.", lambda s: str(s.rng.randint(100, 999))),
    ("Venue", lambda s: e.place(s.rng)),
    ("Principal Investigator", lambda s: e.person(s.rng)),
    ("Total Budget", lambda s: e.money(s.rng)),
    ("Duration", lambda s: e.quantity(s.rng, "months")),
    ("Individual or Corporate Name", lambda s: e.company(s.rng)),
    ("Nature of Duties", lambda s: s.topic.phrase()),
    ("Grower", lambda s: e.person(s.rng)),
    ("County", lambda s: e.place(s.rng)),
    ("Description", lambda s: s.topic.phrase()),
    ("Remarks", lambda s: s.topic.phrase()),
    ("Reason for Request", lambda s: s.topic.phrase()),
    ("Temperature", lambda s: e.quantity(s.rng, "°F")),
    ("Sample No.", lambda s: e.identifier(s.rng)),
    ("Lot Number", lambda s: e.identifier(s.rng)),
    ("Method", lambda s: s.topic.phrase()),
    ("Species/Strain", lambda s: s.rng.choice(s.topic.trade.rows)),
    ("License No.", lambda s: e.identifier(s.rng)),
    ("Authorized Signature", lambda s: e.person(s.rng)),
    ("Payable To", lambda s: e.company(s.rng)),
)
