"""More documents that were born as PDF: a paper in two columns, and a newsletter."""

from __future__ import annotations

from .sheets import GREEN, WHITE, PdfSheet, bars, paragraph, table

LEFT, WIDE = 60, 475


def paper() -> list[PdfSheet]:
    first, second = PdfSheet(), PdfSheet()
    first.text(60, 60, "Moss growth on north-facing brick walls:", 20, "serif bold")
    first.text(60, 86, "a two-year survey of forty streets", 20, "serif bold")
    first.text(60, 120, "L. Fennimore and R. Okonjo-Dale, Institute for Urban Botany", 12, "serif")
    column = 228
    first.text(60, 155, "Abstract", 13, "serif bold")
    y = paragraph(
        first,
        60,
        174,
        column,
        "We measured the thickness of moss on 212 brick walls over two years. Humidity explained more of the growth "
        "than shade, and lime mortar slowed it. Walls beside hedges carried twice as much moss as walls beside roads.",
        12,
        "serif",
    )
    first.text(60, y + 10, "1. Introduction", 13, "serif bold")
    paragraph(
        first,
        60,
        y + 30,
        column,
        "Mosses hold dust and rain water and cool the wall behind them. House owners nevertheless scrub them off. "
        "Earlier studies looked at roofs and tree bark; walls were left out, although they are the larger surface in "
        "most towns. We ask which walls become green, and how fast.",
        12,
        "serif",
    )
    first.text(312, 155, "2. Methods", 13, "serif bold")
    y = paragraph(
        first,
        312,
        174,
        column,
        "Each wall was visited in April and in October. Thickness was read with a needle gauge at nine points per "
        "square metre. Sensors logged humidity and light every hour. Walls that were cleaned during the survey were "
        "dropped (n = 17).",
        12,
        "serif",
    )
    first.text(312, y + 10, "3. Statistics", 13, "serif bold")
    paragraph(
        first,
        312,
        y + 30,
        column,
        "We fitted a mixed model with street as a random effect. Confidence intervals come from 2,000 bootstrap "
        "samples. Code and readings are available from the authors.",
        12,
        "serif",
    )
    _paper_results(second, column)
    return [first, second]


def _paper_results(page: PdfSheet, column: float) -> None:
    page.text(60, 60, "4. Results", 13, "serif bold")
    y = paragraph(
        page,
        60,
        80,
        column,
        "Mean thickness rose from 2.1 mm to 3.4 mm. Growth was fastest between October and April. Bird nests had no "
        "effect (p = 0.41).",
        12,
        "serif",
    )
    page.text(60, y + 8, "Table 1. Moss thickness by mortar", 12, "serif bold")
    rows = [("Mortar", "mm", "walls"), ("Cement", "4.2", "88"), ("Lime", "1.9", "61"), ("Clay", "3.0", "46")]
    table(page, 60, y + 28, [100, 60, 60], rows, 12)
    bars(page, 325, 80, 210, 170, {"60 %": 1.1, "70 %": 2.3, "80 %": 3.8, "90 %": 5.2}, size=11)
    page.text(312, 280, "Figure 2. Thickness (mm) by humidity", 12, "serif bold")
    page.text(312, 330, "5. Discussion", 13, "serif bold")
    y = paragraph(
        page,
        312,
        350,
        column,
        "Planting hedges seems to be the cheapest way to a green wall. Whether frost damages bricks under moss "
        "remains open.",
        12,
        "serif",
    )
    page.text(312, y + 10, "References", 13, "serif bold")
    paragraph(page, 312, y + 30, column, "[1] Tarrant, Roofs and their mosses. [2] Ilves, Bark flora.", 11, "serif")


def newsletter() -> list[PdfSheet]:
    first, second = PdfSheet(), PdfSheet()
    for page in (first, second):
        page.box(0, 0, 595, 70, fill=GREEN)
        page.text(LEFT, 20, "The Millbrook Messenger", 28, "serif bold", WHITE)
    first.text(LEFT, 95, "New cycle bridge opens on Saturday", 22, "serif bold")
    y = paragraph(
        first,
        LEFT,
        132,
        WIDE,
        "After three years of building, the bridge for cyclists and walkers over the Mill Brook opens on Saturday at "
        "11 o'clock. The mayor cuts the ribbon, the brass band plays, and the first hundred cyclists get a bell.",
        13,
        "serif",
    )
    first.text(LEFT, y + 18, "Swimming pool closed until May", 18, "serif bold")
    y = paragraph(
        first,
        LEFT,
        y + 46,
        WIDE,
        "Cracked tiles and a broken pump keep the swimming pool closed for longer than expected. Season passes will be "
        "extended by four months.",
        13,
        "serif",
    )
    first.text(LEFT, y + 18, "Lost and found", 18, "serif bold")
    paragraph(first, LEFT, y + 46, WIDE, "Grey cat with a white paw, answers to Biscuit. Call 555 0147.", 13, "serif")
    second.text(LEFT, 95, "Recipe of the month: pumpkin soup", 22, "serif bold")
    rows = [
        ("Ingredient", "Amount"),
        ("Pumpkin", "1 kg"),
        ("Ginger", "20 g"),
        ("Coconut milk", "400 ml"),
        ("Onions", "2"),
    ]
    y = table(second, LEFT, 135, [180, 120], rows, 13)
    y = paragraph(
        second,
        LEFT,
        y + 6,
        WIDE,
        "Fry the onions and the ginger, add the pumpkin in cubes and half a litre of water. Simmer for 25 minutes, "
        "blend, stir in the coconut milk.",
        13,
        "serif",
    )
    second.text(LEFT, y + 14, "Events in November", 18, "serif bold")
    rows = [
        ("Date", "Event", "Place"),
        ("3 Nov", "Chess evening", "Old school"),
        ("16 Nov", "Lantern parade", "Market"),
    ]
    table(second, LEFT, y + 44, [90, 180, 150], rows, 13)
    return [first, second]
