"""Surfaces: typed values and the templates that state them. A template can be written and read back, which is what lets the expert
be a function of the view: it reads the same sentences that everybody reads.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from envs.tasks.surface_zh import PATTERNS_ZH, accepted_zh, draw_zh

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
FIRST = (
    "Eva", "Tom", "Lin", "Omar", "Ines", "Karl", "Mira", "Noel", "Rita", "Sven", "Tara", "Hugo", "Lena", "Paul", "Nora",
    "Ivan", "Alma", "Jon", "Vera", "Max", "Dora", "Finn", "Iris", "Leo", "Mona", "Otto", "Sara", "Theo", "Zoe", "Anna",
)  # fmt: skip
LAST = (
    "Lund", "Moss", "Berg", "Costa", "Weber", "Silva", "Novak", "Price", "Ortiz", "Kerr", "Dahl", "Rossi", "Stone", "Vogel",
    "Hart", "Blake", "Young", "Frost", "Grant", "Walsh", "Meyer", "Holm", "Reed", "Marsh", "Boyd", "Cole", "Fox", "Gray",
)  # fmt: skip
STREETS = (
    "Elm", "Oak", "Mill", "Park", "Lake", "High", "Station", "Church", "Garden", "River", "Bridge", "Market", "School", "North",
    "Queen", "Castle", "Forest", "Spring", "Harbour", "Temple", "Orchard", "Chapel", "Meadow", "Quarry",
)  # fmt: skip
HOTELS = (
    "Astoria", "Bristol", "Central", "Diana", "Europa", "Florian", "Gloria", "Helios", "Iris", "Jasmin", "Kosmos", "Lido",
    "Miramar", "Nordic", "Opera", "Palace", "Quarz", "Royal", "Savoy", "Terminus",
)  # fmt: skip
PLACES = (
    "Garden", "Harbour", "Plaza", "Riverside", "Grand", "Old Town", "Station", "Park", "Hill", "Bay", "Court", "Gate", "Lodge",
    "Terrace", "View", "Quay",
)  # fmt: skip

PATTERNS = {
    "amount": r"\d{3,6}",
    "part": r"\d{3,6}",
    "code": r"[A-Z]{2}-\d{4}",
    "date": rf"\d{{1,2}} (?:{'|'.join(MONTHS)})",
    "clock": r"\d{2}:\d{2}",
    "person": r"[A-Z][a-z]+ [A-Z][a-z]+",
    "address": r"\d{1,3} [A-Z][a-z]+ Street",
    "hotel": r"Hotel [A-Z][a-z]+ [A-Z][a-z]+(?: Town)?",
    "weight": r"\d{2,4}\.\d kg",
    "tare": r"\d{2,4}\.\d kg",
    "room": r"[A-H]\d{3}",
    "version": r"\d{1,2}\.\d{1,2}\.\d{1,2}",
    "reading": r"\d{1,3}\.\d{2}",
}


def patterns(lang: str) -> dict[str, str]:
    """The pattern of every kind of value in a language."""
    return PATTERNS_ZH if lang == "zh" else PATTERNS


def draw(kind: str, rng: random.Random, lang: str = "en") -> str:
    """A random value of a kind. Every kind has several hundred values or more (hotels: 240), so that guessing does not pay."""
    if lang == "zh" and (value := draw_zh(kind, rng)):
        return value
    match kind:
        case "amount":
            return str(rng.randrange(1100, 9900))
        case "part":  # of an amount of the same record: never more than the whole
            return str(rng.randrange(110, 1090))
        case "code":
            return "".join(rng.choices("ABCDEFGHKLMNPRSTVWXZ", k=2)) + f"-{rng.randrange(1000, 9999)}"
        case "date":
            return f"{rng.randrange(1, 29)} {rng.choice(MONTHS)}"
        case "clock":
            return f"{rng.randrange(24):02d}:{rng.randrange(0, 60, 5):02d}"
        case "person":
            return f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        case "address":
            return f"{rng.randrange(1, 199)} {rng.choice(STREETS)} Street"
        case "weight":
            return f"{rng.randrange(210, 2000)}.{rng.randrange(10)} kg"
        case "tare":  # less than any weight
            return f"{rng.randrange(10, 200)}.{rng.randrange(10)} kg"
        case "room":
            return f"{rng.choice('ABCDEFGH')}{rng.randrange(100, 999)}"
        case "version":
            return f"{rng.randrange(1, 20)}.{rng.randrange(20)}.{rng.randrange(20)}"
        case "reading":
            return f"{rng.randrange(2, 400)}.{rng.randrange(100):02d}"
        case "hotel":
            return f"Hotel {rng.choice(HOTELS)} {rng.choice(PLACES)}"
    raise ValueError(f"unknown kind of value {kind!r}: choose one of {', '.join(PATTERNS)}")


def accepted(kind: str, value: str, lang: str = "en", says: Sequence[str] = ()) -> tuple[str, ...]:
    """Accepted forms of a value, the canonical one first; in Chinese also with the unit that the sentences ``says`` give it."""
    if lang == "zh":
        return accepted_zh(kind, value, says)
    if kind == "date":
        day, month = value.split(" ")
        return (value, f"{month} {day}", f"{day} {month[:3]}", f"{int(day):02d} {month}")
    if kind == "hotel":
        return (value, value.removeprefix("Hotel "))
    if kind in ("weight", "tare"):
        return (value, value.removesuffix(" kg"), value.replace(" ", ""))
    return (value,)


@dataclass(frozen=True, slots=True)
class Attr:
    """A field of a record: how results state it, and the noun that questions and briefs use for it."""

    name: str
    kind: str
    noun: str
    says: tuple[str, ...]
    other: tuple[str, ...] = ()
    """Questions for it that share no word with ``noun`` or ``says``."""
    none: tuple[str, ...] = ()
    """Sentences that state that there is none: the value is then ``none``."""
    guesses: tuple[str, ...] = ()
    """Sentences that offer an unconfirmed value: a red herring, never true."""
    excluded: bool = False
    """The field itself tells what has been ruled out."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A template made to be read back. ``words`` is its longest fixed part: a text without it needs no search by regex."""

    words: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, template: str, patterns: dict[str, str]) -> Reader:
        parts = re.split(r"\{(\w+)\}", template)
        out = "".join(re.escape(p) if i % 2 == 0 else f"(?P<{p}>{patterns[p]})" for i, p in enumerate(parts))
        return cls(max(parts[::2], key=len), re.compile(out))


@lru_cache(maxsize=1024)
def _readers(templates: tuple[str, ...], fields: tuple[tuple[str, str], ...]) -> tuple[Reader, ...]:
    return tuple(Reader.of(t, dict(fields)) for t in templates)


def _that_may_match(templates: Sequence[str], text: str, fields: dict[str, str]) -> Iterator[re.Pattern[str]]:
    return (r.pattern for r in _readers(tuple(templates), tuple(fields.items())) if r.words in text)


def find_all(templates: Sequence[str], text: str, fields: dict[str, str]) -> list[re.Match[str]]:
    """Every place where one of the templates stands in the text, in order of the text. ``fields`` gives the pattern of each placeholder."""
    matches = [m for p in _that_may_match(templates, text, fields) for m in p.finditer(text)]
    return sorted(matches, key=lambda m: m.start())


def find_first(templates: Sequence[str], text: str, fields: dict[str, str]) -> re.Match[str] | None:
    """The first of ``find_all``; None when there is none."""
    matches = (m for p in _that_may_match(templates, text, fields) if (m := p.search(text)))
    return min(matches, key=lambda m: m.start(), default=None)
