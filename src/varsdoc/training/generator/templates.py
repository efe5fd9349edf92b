"""Question templates. Slots in braces are filled with what the page printed."""

from __future__ import annotations

FIELD = (
    "What is the {label}?",
    "What is the {label} mentioned in the document?",
    "What is the {label} given in the form?",
    "{label}?",
    "what is the value of {label}?",
    "What {label} is given?",
    "What is the '{label}' ?",
    "Find the {label}",
    "What is written for {label}?",
    "which {label} is mentioned?",
    "What is the {label} of the document?",
    "Tell me the {label}",
)
PERSON_FIELD = (
    "Who is the {label}?",
    "What is the name of the {label}?",
    "Who is mentioned as {label}?",
    "name of {label}",
)
PLACE_FIELD = (
    "What is the {label} in {title}?",
    "In {title}, what is the {label}?",
    "{label} in the {title}",
    "What {label} does the {title} give?",
)
FIELD_VALUE = (
    "{label} {value}",
    "{value}",
    "{label}: {value}",
    "document with {label} {value}",
    "Whose {label} is {value}?",
)
# By label word: how a person asks for it.
SPECIAL = {
    "date": (
        "When is the document dated?",
        "What is the date of the {title}?",
        "What date is on the {title}?",
        "What is the date mentioned?",
    ),
    "to": ("To whom is the memo addressed?", "Who is the {title} addressed to?", "Who is the recipient?"),
    "from": ("Who sent this {title}?", "From whom is the memo?", "Who is the sender of the {title}?"),
    "subject": ("What is the subject of the {title}?", "What is the memo about?", "What is the subject?"),
    "total": ("What is the total amount?", "What is the total on the bill?", "How much is the total?"),
    "amount": ("What is the amount?", "How much was paid?", "What amount is on the {title}?"),
    "age": ("How old is the person?", "What is the age?"),
    "cc": ("Who was copied on the {title}?", "To whom was a copy sent?"),
    "signed by": ("Who signed the letter?", "By whom is this letter signed?", "Who wrote the letter?"),
    "letter addressed to": ("To whom is the letter addressed?", "Who is the letter written to?"),
    "page number": ("What is the page number?", "What is the page number given at the bottom?"),
    "authors": ("Who are the authors?", "Who wrote {title}?", "Who is the author of {title}?"),
}
TITLE = (
    "{title}",
    "{title}",
    "What is the title of the document about {title}?",
    "document titled {title}",
    "page with the heading {title}",
    "Find the section {title}",
    "Which page discusses {title}?",
    "Where is {title} described?",
    "information on {title}",
    "What does the page say about {title}?",
)
CAPTION = (
    "{title}",
    "figure showing {title}",
    "table of {title}",
    "Which page has the table {title}?",
    "{title} chart",
    "Where is {title} shown?",
)
TABLE = (
    "What is the {column} for {row}?",
    "What is the {column} of {row}?",
    "{row} {column}",
    "{column} {row}",
    "What was {row} in {column}?",
    "How much is the {column} for {row}?",
    "what is the value of {row} under {column}?",
    "What is the '{column}' of '{row}'?",
    "Give the {column} of {row}",
    "How many {column} for {row}?",
    "What is the {row} {column}?",
)
TABLE_TITLED = (
    "In {title}, what is the {column} for {row}?",
    "{row} {column} {title}",
    "What is the {column} for {row} in the table {title}?",
    "{title} {row} {column}",
    "According to {title}, what is the {column} of {row}?",
)
TABLE_MOST = (
    "Which {corner} has the highest {column}?",
    "Which {corner} has the lowest {column}?",
    "What has the maximum {column}?",
    "Which {corner} has the largest {column}, {row} or {other}?",
    "Is the {column} of {row} higher than that of {other}?",
)
TABLE_REVERSE = (
    "Which {corner} has a {column} of {value}?",
    "{value} {column}",
    "For which {corner} is {column} {value}?",
)
CHART_ONE = (
    "What was the {subject} in {category}?",
    "What is the {subject} of {category}?",
    "{subject} {category}",
    "What is the value of {category} in {subject}?",
    "What's the {subject} for {category}?",
    "How high was the {subject} in {category}?",
    "what is the {subject} in {category} according to the chart?",
)
CHART_MANY = (
    "What was the {subject} of {series} in {category}?",
    "What is the {series} value in {category}?",
    "What percentage of {category} say {series}?",
    "What's the value of {series} for {category}?",
    "{series} {category} {subject}",
    "How many in {category} answered {series}?",
    "What is the share of {series} in {category}?",
    "What is the percentage of {series} in {category}?",
    "What is the {colour} bar of {category}?",
)
CHART_MOST = (
    "Which {kind} has the highest {subject}?",
    "Which {kind} recorded the highest {subject}?",
    "Which {kind} has the most {subject}?",
    "In which {kind} was the {subject} the highest?",
    "What {kind} has the largest {subject}?",
    "Which {kind} had the peak {subject}?",
    "Where is the {subject} highest?",
    "What is the maximum {subject} shown?",
)
CHART_LEAST = (
    "Which {kind} has the lowest {subject}?",
    "Which {kind} recorded the least {subject}?",
    "What is the smallest {subject}?",
    "Which {kind} shows the minimum {subject}?",
    "In which {kind} was the {subject} lowest?",
)
CHART_PAIR = (
    "What is the difference between {category} and {other} in {subject}?",
    "Is the {subject} of {category} greater than that of {other}?",
    "What is the sum of {subject} in {category} and {other}?",
    "What's the ratio of {category} to {other} in {subject}?",
    "What is the average {subject} of {category} and {other}?",
    "Compare {subject} between {category} and {other}",
    "What's the total add-up value of {category} and {other}?",
    "Does {category} or {other} have the higher {subject}?",
)
CHART_SERIES = (
    "What does {colour} represent in the chart of {subject}?",
    "Which color shows {series}?",
    "What color is used for {series}?",
    "In which {kind} was {series} highest?",
    "What is the highest value of {series}?",
    "What is the lowest value of the {series} bar?",
    "When does {series} reach its peak?",
    "What is the average of {series}?",
    "{series} vs {rival}",
    "What is the gap between {series} and {rival}?",
    "Which {kind} has the largest gap between {series} and {rival}?",
)
CHART_ABOUT = (
    "chart of {subject} by {kind}",
    "{subject} {category} {other}",
    "How many {kinds} are shown in the chart of {subject}?",
    "{title}",
    "graph about {title}",
    "{subject} from {category} to {last}",
    "statistics on {subject} in {category}",
)
SENTENCE = (
    "What is said about {phrase}?",
    "{phrase}",
    "{phrase}",
    "passage on {phrase}",
    "where does it say {phrase}",
    '"{phrase}"',
)
ITEM = ("{phrase}", "list with {phrase}", "Which list mentions {phrase}?", "{phrase} {title}")
