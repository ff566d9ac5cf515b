"""The fact store of ``layered``: what a text states, with source, time and status; one active value an entity.

Rules: a user's word replaces at once; a tool's value replaces a tool's, but against a user's it is *pending*; what the model said is a
*candidate* and never replaces anything. Replaced values are *expired* and no longer shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envs.managers.base import Record, sentences, words

Status = Literal["active", "expired", "pending", "candidate"]
Source = Literal["user", "tool", "inference"]
VALUE = re.compile(
    r"[A-Z]{2,}(?:-\w+)+|\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}:\d{2}\b|\b\d{1,2} [A-Z][a-z]{2,}\b|\b\d[\d,.]*\d\b|\b\d+\b"
    r"|\b[A-Z][a-z]+ [A-Z][a-z]+\b|(?<=为)[^，。；\s]+|(?<=改成)[^，。；\s]+"
)
GENERIC = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "by",
        "for",
        "from",
        "has",
        "have",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "our",
        "that",
        "the",
        "their",
        "there",
        "this",
        "to",
        "was",
        "were",
        "will",
        "with",
        "you",
        "your",
        "we",
        "now",
        "new",
        "changed",
        "change",
        "changes",
        "updated",
        "revised",
        "instead",
        "become",
        "becomes",
        "moved",
        "set",
        "than",
        "please",
        "must",
        "i",
        "me",
        "my",
    ]
)
SAME = 0.34
"""Shared share of the subjects' words from which two facts are about the same entity."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One stated value. ``text`` is the sentence, ``about`` and ``subject`` the words that identify the entity."""

    fact_id: str
    subject: frozenset[str]
    about: frozenset[str]
    value: str
    text: str
    source: Source
    timestamp: int
    """Place in the history."""
    status: Status = "active"


def identity(text: str) -> frozenset[str]:
    """The words of a text that can identify what it is about: no values, no small words."""
    return frozenset(w for w in words(VALUE.sub(" ", text)) if w not in GENERIC and not w.isdigit())


def stated(record: Record) -> list[Fact]:
    """The facts that a record states: every sentence with values, questions aside."""
    held = sentences(record.text)
    if not held:
        return []
    source: Source = {"user": "user", "tool": "tool"}.get(record.role, "inference")  # type: ignore[assignment]
    subject = identity(held[0])
    found = []
    for number, sentence in enumerate(held):
        values = VALUE.findall(sentence)
        if values and not sentence.rstrip().endswith(("?", "？", "=?")):
            text = sentence if number == 0 or record.role != "tool" else f"{' '.join(held[0].split()[:8])}: {sentence}"
            found.append(
                Fact(f"fact_{record.place}_{number}", subject, identity(sentence), " ".join(values), text, source, record.place)
            )
    return found


def same_entity(one: Fact, two: Fact) -> bool:
    """Whether two facts give a value of the same thing."""
    if one.about != two.about or not one.about:
        return False
    either = one.subject | two.subject
    return not either or len(one.subject & two.subject) / len(either) >= SAME


class FactStore:
    """All facts of a task, in the order they were written."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.facts: list[Fact] = list(facts)
        self.retired: set[str] = set()
        """Values that were in force once, purged ones too."""

    def write(self, fact: Fact) -> Fact:
        """Write a fact by the rules; returns it as it stands."""
        standing = [f for f in self.facts if f.status == "active" and same_entity(f, fact)]
        if any(f.value == fact.value for f in standing):
            return fact  # said before
        if fact.source == "inference":
            fact = replace(fact, status="candidate")
        elif fact.source == "tool" and any(f.source == "user" for f in standing):
            fact = replace(fact, status="pending")
        else:
            self._expire(standing)
        self.facts.append(fact)
        self.retired.discard(fact.value if fact.status == "active" else "")
        return fact

    def _expire(self, gone: Sequence[Fact]) -> None:
        ids = {f.fact_id for f in gone}
        self.retired |= {f.value for f in gone}
        self.facts = [replace(f, status="expired") if f.fact_id in ids else f for f in self.facts]

    def active(self) -> list[Fact]:
        """What may be shown."""
        return [f for f in self.facts if f.status == "active"]

    def count(self, status: Status) -> int:
        return sum(f.status == status for f in self.facts)

    def conflicts(self) -> list[tuple[Fact, Fact]]:
        """Pairs of active facts with different values of one entity."""
        held: dict[frozenset[str], list[Fact]] = {}
        for fact in self.active():
            held.setdefault(fact.about, []).append(fact)
        return [
            (a, b)
            for group in held.values()
            for i, a in enumerate(group)
            for b in group[i + 1 :]
            if a.value != b.value and same_entity(a, b)
        ]

    def settle(self) -> int:
        """Resolve every conflict: user over tool over inference, then the newer; returns how many were expired."""
        rank = {"user": 2, "tool": 1, "inference": 0}
        losers = [min(pair, key=lambda f: (rank[f.source], f.timestamp)) for pair in self.conflicts()]
        self._expire(losers)
        self.retired -= {f.value for f in self.active()}
        return len({f.fact_id for f in losers})

    def purge(self) -> int:
        """Drop expired facts; returns how many."""
        before = len(self.facts)
        self.facts = [f for f in self.facts if f.status != "expired"]
        return before - len(self.facts)

    def clear(self) -> None:
        """The task has ended."""
        self.facts = []
