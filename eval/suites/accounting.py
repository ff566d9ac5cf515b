"""Token accounting of two arms over the same sessions: with diagnostic turns, without them, and over the pairs that both finished.

A session that failed a gate is played to its end, and its later turns cost tokens without doing work. So a ratio of totals says
what was spent, a ratio without those turns what was spent before the verdict, and neither compares equal work: only pairs in which
both arms passed do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eval.suites.base import Result

TOLD = re.compile(r"(passed|failed): ([\d,]+)(?: \(([\d,]+) diagnostic\))?")


@dataclass(frozen=True, slots=True)
class Run:
    """One session of one arm. ``tokens`` are input + output of all inferences, ``diagnostic`` those after the failed gate."""

    pair: str
    """What the same session of another arm is known by: item and repeat."""
    passed: bool
    tokens: int
    diagnostic: int = 0

    @classmethod
    def of(cls, result: Result) -> Run:
        """The run of a judged session."""
        return cls(f"{result.item}/{result.repeat}", result.core, result.tokens, result.diagnostic_tokens)

    @classmethod
    def read(cls, pair: str, text: str) -> Run | None:
        """The run that a table cell tells of (what ``str`` gives), or None."""
        found = TOLD.match(text)
        if not found:
            return None
        tokens, diagnostic = (int((found[n] or "0").replace(",", "")) for n in (2, 3))
        return cls(pair, found[1] == "passed", tokens, diagnostic)

    def __str__(self) -> str:
        more = f" ({self.diagnostic:,} diagnostic)" if self.diagnostic else ""
        return f"{'passed' if self.passed else 'failed'}: {self.tokens:,}{more}"


@dataclass(frozen=True, slots=True)
class Compared:
    """One arm against another, by ratios of tokens; None where the other arm spent none or no pair was finished by both."""

    whole: float | None
    without: float | None
    """Without diagnostic turns, on either side."""
    finished: float | None
    """Over the pairs that both arms passed: the only comparison of equal work."""
    pairs: int
    finished_pairs: int


def compare(arm: Sequence[Run], other: Sequence[Run]) -> Compared:
    """Ratios of ``arm`` to ``other`` over the sessions that both played."""
    theirs = {r.pair: r for r in other}
    pairs = [(r, theirs[r.pair]) for r in arm if r.pair in theirs]
    both = [(a, b) for a, b in pairs if a.passed and b.passed]
    return Compared(
        whole=_ratio(sum(a.tokens for a, _ in pairs), sum(b.tokens for _, b in pairs)),
        without=_ratio(sum(a.tokens - a.diagnostic for a, _ in pairs), sum(b.tokens - b.diagnostic for _, b in pairs)),
        finished=_ratio(sum(a.tokens for a, _ in both), sum(b.tokens for _, b in both)),
        pairs=len(pairs), finished_pairs=len(both),
    )  # fmt: skip


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
