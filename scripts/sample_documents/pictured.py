"""Documents that are pictures: forms, an invoice, a timetable, a receipt, a chart, scans."""

from __future__ import annotations

from .sheets import A4, BLACK, BLUE, GREY, LIGHT, PictureSheet, curve, paragraph, table, width_of

LEFT, WIDE = 60, 475


def travel_form() -> PictureSheet:
    page = PictureSheet()
    page.text(LEFT, 50, "Travel expense claim", 24, "bold")
    page.text(LEFT, 86, "Please fill in with a pen. Attach receipts above 25 EUR.", 11, ink=GREY)
    fields = [
        ("Name", "Henrike Solvang"),
        ("Department", "Purchasing"),
        ("Destination", "Lisbon"),
        ("Purpose of the trip", "Trade fair for ceramics"),
        ("Departure", "14 April 2024, 06:40"),
        ("Return", "17 April 2024, 22:15"),
    ]
    y = 120.0
    for label, value in fields:
        page.text(LEFT, y, label, 11, ink=GREY)
        page.box(LEFT + 150, y - 6, 325, 26, ink=GREY)
        page.text(LEFT + 160, y - 2, value, 14, ink=BLUE)
        y += 38
    rows = [
        ("Expense", "Amount EUR", "Receipt"),
        ("Flight", "318.00", "yes"),
        ("Hotel, three nights", "402.50", "yes"),
        ("Taxi", "36.20", "yes"),
        ("Meals", "94.00", "no"),
    ]
    y = table(page, LEFT, y + 10, [235, 130, 110], rows, 13)
    page.text(LEFT, y + 6, "Total to be reimbursed: 850.70 EUR", 15, "bold")
    page.text(LEFT, y + 60, "Signature of the traveller", 11, ink=GREY)
    page.text(LEFT + 170, y + 48, "H. Solvang", 20, ink=BLUE)
    page.line(LEFT + 150, y + 76, LEFT + 400, y + 76)
    return page


def invoice() -> PictureSheet:
    page = PictureSheet()
    page.text(LEFT, 50, "Quillfeather Plumbing Supplies", 22, "bold", BLUE)
    page.text(LEFT, 80, "8 Cooper Lane, Weirmouth", 11)
    page.text(LEFT, 130, "Invoice no. 2024-0187", 18, "bold")
    page.text(LEFT, 160, "Date: 9 September 2024", 12)
    page.text(LEFT, 180, "Customer: Saltmarsh Swimming Club", 12)
    rows = [
        ("Article", "Quantity", "Unit price", "Total"),
        ("Copper gasket 22 mm", "40", "1.85", "74.00"),
        ("Ball valve brass", "6", "14.20", "85.20"),
        ("Pipe insulation, metre", "25", "3.10", "77.50"),
        ("Circulation pump", "1", "289.00", "289.00"),
        ("Delivery", "1", "18.00", "18.00"),
    ]
    y = table(page, LEFT, 220, [205, 90, 95, 85], rows, 13)
    for label, value in (("Subtotal", "543.70"), ("Value added tax 20 %", "108.74"), ("Amount due", "652.44 EUR")):
        page.text(LEFT + 200, y, label, 13, "bold" if "due" in label else "plain")
        page.text(LEFT + 395, y, value, 13, "bold" if "due" in label else "plain")
        y += 24
    page.text(LEFT, y + 30, "Payable within 30 days. Late payment costs 2 % a month.", 12)
    return page


def timetable() -> PictureSheet:
    page = PictureSheet()
    page.box(0, 0, 595, 12, fill=BLUE)
    page.text(LEFT, 28, "Bus timetable, line 14", 26, "bold", BLUE)
    page.text(LEFT, 66, "Hospital - Market Square - Ferry Quay", 15)
    weekday = [
        ("Stop", "first", "", "", "", "last"),
        ("Hospital", "05:52", "07:12", "12:32", "17:02", "22:47"),
        ("Market Square", "06:01", "07:24", "12:43", "17:14", "22:56"),
        ("Botanical Garden", "06:07", "07:31", "12:49", "17:21", "23:02"),
        ("Ferry Quay", "06:15", "07:40", "12:57", "17:30", "23:10"),
    ]
    sunday = [
        ("Stop", "first", "", "", "last"),
        ("Hospital", "08:10", "11:10", "15:10", "20:40"),
        ("Market Square", "08:18", "11:18", "15:18", "20:48"),
        ("Ferry Quay", "08:30", "11:30", "15:30", "21:00"),
    ]
    page.text(LEFT, 105, "Monday to Friday", 16, "bold")
    y = table(page, LEFT, 132, [145, 66, 66, 66, 66, 66], weekday, 13)
    page.text(LEFT, y + 10, "Sunday and public holidays", 16, "bold")
    y = table(page, LEFT, y + 38, [145, 66, 66, 66, 66], sunday, 13)
    page.text(LEFT, y + 10, "Dogs travel free. Bicycles only after 9 o'clock.", 13)
    return page


def receipt() -> PictureSheet:
    page = PictureSheet((300, 470), 1.9)
    for y, words, size in (
        (22, "CAFE PELICAN", 18),
        (48, "12 Wharf Street", 12),
        (66, "Table 7   02.08.2024  15:26", 12),
    ):
        page.text(150 - width_of(words, size, "typed") / 2, y, words, size, "typed")
    lines = [
        ("2 Cinnamon bun", "7.60"),
        ("1 Espresso", "2.40"),
        ("1 Hot chocolate", "4.10"),
        ("1 Lemonade", "3.50"),
        ("1 Cheese sandwich", "6.90"),
    ]
    y = 105
    for label, price in lines:
        page.text(22, y, label, 13, "typed")
        page.text(278 - width_of(price, 13, "typed"), y, price, 13, "typed")
        y += 26
    page.line(22, y + 4, 278, y + 4)
    page.text(22, y + 16, "TOTAL", 18, "typed")
    page.text(278 - width_of("24.50", 18, "typed"), y + 16, "24.50", 18, "typed")
    page.text(22, y + 52, "Paid in cash      30.00", 13, "typed")
    page.text(22, y + 74, "Change             5.50", 13, "typed")
    page.text(50, y + 120, "Thank you, come again!", 13, "typed")
    return page


def rainfall_chart() -> PictureSheet:
    page = PictureSheet((640, 440), 1.5)
    page.text(60, 24, "Monthly rainfall in Tarnvik, 2023", 22, "bold")
    page.text(60, 56, "millimetres, weather station at the lighthouse", 13, ink=GREY)
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    fallen = (88, 61, 55, 47, 39, 52, 64, 81, 97, 134, 121, 102)
    curve(page, 60, 110, 530, 250, dict(zip(months, map(float, fallen), strict=True)), BLUE, 13)
    page.text(60, 405, "Wettest month: October (134 mm). Driest month: May (39 mm).", 13)
    return page


def letter() -> PictureSheet:
    page = PictureSheet(A4, 1.4)
    page.text(LEFT, 60, "Percival Thorne", 13, "serif")
    page.text(LEFT, 78, "3 Orchard Close, Millbrook", 13, "serif")
    page.text(LEFT, 130, "To the Housing Office", 13, "serif")
    page.text(LEFT, 170, "Complaint about the leaking roof", 16, "serif bold")
    y = 205.0
    for words in (
        "Dear Sir or Madam,",
        "since the storm of 11 January water drips through the ceiling of my bedroom. I reported the leaking roof by "
        "telephone twice, and twice I was promised a roofer within a week. Nobody came.",
        "The wallpaper is mouldy, and the carpet is ruined. I therefore reduce my rent by one fifth from February on, "
        "until the tiles are replaced.",
        "Please send a written answer before the end of the month.",
        "Yours faithfully,",
    ):
        y = paragraph(page, LEFT, y, WIDE, words, 14, "serif") + 8
    page.text(LEFT, y + 10, "P. Thorne", 24, ink=BLUE)
    return page


def minutes() -> list[PictureSheet]:
    first, second = PictureSheet(), PictureSheet()
    first.text(LEFT, 55, "Garden association Sunnyside", 14)
    first.text(LEFT, 80, "Minutes of the meeting on 21 March", 20, "bold")
    first.text(LEFT, 120, "Present: Abara, Castellan, Dunmore, Ekholm, Falk", 13)
    y = 160.0
    for heading, words in (
        (
            "1. Water bill",
            "The water bill rose to 1,940 EUR because of a burst pipe. Falk asks every member to read the meter "
            "monthly.",
        ),
        ("2. Compost", "Kitchen waste attracts rats. Cooked food is forbidden on the compost heap from now on."),
        ("3. New members", "Eleven families are on the waiting list. Plot 9 goes to the Ibsen family."),
    ):
        first.text(LEFT, y, heading, 15, "bold")
        y = paragraph(first, LEFT, y + 26, WIDE, words, 13) + 14
    second.text(LEFT, 55, "Minutes, page 2", 11, ink=GREY)
    second.text(LEFT, 85, "4. Tasks", 18, "bold")
    rows = [
        ("Task", "Who", "Until"),
        ("Repair greenhouse heating", "Castellan", "10 April"),
        ("Order seed potatoes", "Abara", "1 April"),
        ("Paint the fence", "Dunmore", "30 May"),
        ("Bee hive inspection", "Ekholm", "15 May"),
    ]
    y = table(second, LEFT, 120, [230, 130, 115], rows, 13)
    second.text(LEFT, y + 10, "5. Summer party", 18, "bold")
    paragraph(second, LEFT, y + 42, WIDE, "The party is on 6 July. Everyone brings a salad; drinks cost 2 EUR.", 13)
    second.box(LEFT, 700, 220, 40, fill=LIGHT, ink=BLACK)
    second.text(LEFT + 12, 710, "Next meeting: 16 May", 14)
    return [first, second]
