"""Documents that were born as PDF: an annual report, slides, a safety manual."""

from __future__ import annotations

from .sheets import (
    BLUE,
    GREY,
    LIGHT,
    RED,
    SLIDE,
    TEAL,
    WHITE,
    PdfSheet,
    bars,
    curve,
    paragraph,
    pie,
    table,
)

LEFT, WIDE = 60, 475


def annual_report() -> list[PdfSheet]:
    return [_letter_to_shareholders(), _revenue(), _key_figures(), _people()]


def _report_page(number: int, heading: str) -> PdfSheet:
    page = PdfSheet()
    page.text(LEFT, 36, "Lanternworks Group  |  Annual report 2024", 10, ink=GREY)
    page.text(530, 36, str(number), 10, ink=GREY)
    page.text(LEFT, 70, heading, 24, "bold", BLUE)
    return page


def _letter_to_shareholders() -> PdfSheet:
    page = _report_page(1, "Letter to our shareholders")
    y = 125.0
    for words in (
        "Dear shareholders, 2024 was the year in which street lighting became our largest business. Cities replaced "
        "sodium lamps faster than we had planned, and our new factory in Brennhaven delivered from its first week.",
        "We paid down debt, opened two service centres and won the harbour lighting contract against five "
        "competitors. Not everything went well: a shortage of drivers delayed garden lamps until June.",
        "The board proposes a dividend of 1.35 EUR per share. We thank our customers for their patience and our staff "
        "for a year of night shifts.",
    ):
        y = paragraph(page, LEFT, y, WIDE, words, 13)
    page.text(LEFT, y + 30, "Ottilie Marwick", 15, "serif bold")
    page.text(LEFT, y + 52, "Chairwoman of the board", 12)
    return page


def _revenue() -> PdfSheet:
    page = _report_page(2, "Revenue by region")
    y = paragraph(
        page,
        LEFT,
        120,
        WIDE,
        "Revenue grew by 12 percent to 840 million EUR. The Nordic region overtook Central Europe for the first time; "
        "overseas sales fell because of freight costs.",
        13,
    )
    page.text(LEFT, y + 20, "Revenue 2024 by region, million EUR", 13, "bold")
    shown = {"Nordic": 310.0, "Central Europe": 295.0, "Iberia": 140.0, "Overseas": 95.0}
    bars(page, LEFT + 10, y + 55, 440, 240, shown, size=12)
    page.text(LEFT, y + 350, "Order backlog at year end, million EUR", 13, "bold")
    curve(
        page, LEFT + 20, y + 385, 410, 110, {"2020": 120, "2021": 150, "2022": 170, "2023": 165, "2024": 230}, size=11
    )
    return page


def _key_figures() -> PdfSheet:
    page = _report_page(3, "Key figures")
    rows = [
        ("million EUR", "2022", "2023", "2024"),
        ("Revenue", "702", "750", "840"),
        ("Operating profit", "61", "58", "96"),
        ("Net income", "38", "35", "64"),
        ("Research spending", "24", "27", "33"),
        ("Cash flow", "70", "66", "102"),
        ("Net debt", "215", "204", "148"),
        ("Equity ratio", "41 %", "42 %", "47 %"),
        ("Dividend per share", "0.90", "0.95", "1.35"),
    ]
    y = table(page, LEFT, 125, [220, 85, 85, 85], rows, 13)
    paragraph(
        page,
        LEFT,
        y + 10,
        WIDE,
        "Operating profit includes a gain of 7 million from the sale of the old warehouse. Figures for 2022 were "
        "restated after the change in lease accounting.",
        12,
    )
    return page


def _people() -> PdfSheet:
    page = _report_page(4, "People and environment")
    page.text(LEFT, 120, "Employees by department", 14, "bold")
    rows = [
        ("Department", "Employees", "Trainees"),
        ("Assembly", "1,480", "96"),
        ("Glass blowing", "310", "22"),
        ("Research", "265", "14"),
        ("Logistics", "420", "31"),
    ]
    y = table(page, LEFT, 148, [220, 120, 120], rows, 13)
    page.text(LEFT, y + 16, "Energy used in our factories", 14, "bold")
    pie(page, LEFT + 90, y + 140, 85, {"Wind power": 54, "Hydropower": 27, "Natural gas": 14, "Heating oil": 5}, 13)
    paragraph(
        page,
        LEFT,
        y + 260,
        WIDE,
        "Accidents at work fell to 3.1 per million hours. All lamps sold since March can be repaired without special "
        "tools, and 71 percent of packaging is recycled cardboard.",
        12,
    )
    return page


def slides() -> list[PdfSheet]:
    return [_title_slide(), _timeline_slide(), _survey_slide(), _risk_slide()]


def _slide(heading: str, number: int) -> PdfSheet:
    page = PdfSheet(SLIDE)
    page.box(0, 0, 720, 64, fill=TEAL)
    page.text(36, 18, heading, 26, "bold", WHITE)
    page.text(36, 382, f"Ferry app  |  steering group  |  {number}", 11, ink=GREY)
    return page


def _title_slide() -> PdfSheet:
    page = PdfSheet(SLIDE)
    page.box(0, 0, 720, 405, fill=TEAL)
    page.text(60, 110, "A ticket app for the river ferries", 36, "bold", WHITE)
    page.text(60, 180, "Project status for the steering group, October", 20, ink=WHITE)
    page.text(60, 320, "Department of Transport, Town of Weirmouth", 16, ink=WHITE)
    return page


def _timeline_slide() -> PdfSheet:
    page = _slide("Timeline", 2)
    steps = [
        ("January", "Interviews with captains and commuters"),
        ("March", "First prototype, usability test with 40 passengers"),
        ("June", "Pilot phase on the Otter line starts"),
        ("September", "All five lines, ticket machines switched off"),
        ("December", "Final report to the town council"),
    ]
    for i, (when, what) in enumerate(steps):
        y = 92 + i * 56
        page.box(40, y, 130, 36, fill=LIGHT)
        page.text(52, y + 9, when, 18, "bold")
        page.text(190, y + 9, what, 18)
    return page


def _survey_slide() -> PdfSheet:
    page = _slide("How passengers want to pay", 3)
    pie(page, 170, 215, 110, {"Phone": 46, "Bank card": 31, "Cash": 17, "Season ticket": 6}, 20)
    page.text(330, 330, "Survey of 1,204 passengers, May", 14, ink=GREY)
    return page


def _risk_slide() -> PdfSheet:
    page = _slide("Risks and budget", 4)
    rows = [
        ("Risk", "Likelihood", "Answer"),
        ("No network under the bridges", "high", "tickets work offline"),
        ("Supplier goes bankrupt", "low", "source code in escrow"),
        ("Privacy complaint", "medium", "no location stored"),
    ]
    y = table(page, 36, 88, [290, 130, 220], rows, 17)
    page.text(36, y + 20, "Budget: 480,000 EUR, of which 312,000 spent", 20, "bold")
    page.text(36, y + 52, "Reserve for accessibility audit: 25,000 EUR", 18)
    return page


def manual() -> list[PdfSheet]:
    return [_shutdown(), _storage(), _first_aid()]


def _manual_page(number: int, heading: str) -> PdfSheet:
    page = PdfSheet()
    page.box(0, 0, 595, 14, fill=RED)
    page.text(LEFT, 30, "Laboratory safety manual, 7th edition", 10.5, ink=GREY)
    page.text(LEFT, 60, heading, 22, "bold", RED)
    page.text(LEFT, 800, f"Page {number} of 3", 10.5, ink=GREY)
    return page


def _steps(page: PdfSheet, y: float, steps: list[str]) -> float:
    for i, words in enumerate(steps, 1):
        page.text(LEFT, y, f"{i}.", 13, "bold")
        y = paragraph(page, LEFT + 26, y, WIDE - 26, words, 13) + 4
    return y


def _shutdown() -> PdfSheet:
    page = _manual_page(1, "Emergency shutdown of the reactor")
    y = _steps(
        page,
        110,
        [
            "Press the red button beside the door.",
            "Close valve B (cooling water) before valve A (feed gas).",
            "Switch off the stirrer and the heating jacket.",
            "Leave the hall through the east exit and call extension 112.",
            "Wait at the assembly point until the shift leader has counted everyone.",
        ],
    )
    page.box(LEFT, y + 20, WIDE, 70, fill=(255, 240, 220), ink=RED)
    page.text(LEFT + 14, y + 32, "Warning", 14, "bold", RED)
    page.text(LEFT + 14, y + 56, "Never open the vent while pressure is above 2 bar.", 13)
    return page


def _storage() -> PdfSheet:
    page = _manual_page(2, "Storage of chemicals")
    rows = [
        ("Chemical", "Cabinet", "Temperature", "Keep away from"),
        ("Acetone", "yellow, ventilated", "below 25 C", "open flames"),
        ("Nitric acid", "blue, lower shelf", "room", "solvents"),
        ("Sodium", "under oil", "room", "water"),
        ("Hydrogen peroxide", "refrigerator 3", "4 C", "metal salts"),
        ("Ammonia", "fume hood", "room", "bleach"),
    ]
    y = table(page, LEFT, 110, [130, 125, 100, 120], rows, 12)
    paragraph(
        page,
        LEFT,
        y + 12,
        WIDE,
        "Label every bottle with its name, the date of opening and your initials. Bottles without a label are handed "
        "to waste collection on Thursdays. No more than five litres of solvent may stand on a bench.",
        13,
    )
    return page


def _first_aid() -> PdfSheet:
    page = _manual_page(3, "First aid")
    page.text(LEFT, 110, "Acid or alkali in the eye", 15, "bold")
    y = _steps(page, 138, ["Rinse with the eye shower for fifteen minutes.", "Hold the eyelids open.", "See a doctor."])
    page.text(LEFT, y + 10, "Burns", 15, "bold")
    y = _steps(page, y + 38, ["Cool with lukewarm water for ten minutes.", "Cover loosely; no ointment, no ice."])
    page.text(LEFT, y + 10, "Electric shock", 15, "bold")
    _steps(page, y + 38, ["Switch off the current first.", "Start chest compressions if there is no breathing."])
    return page
