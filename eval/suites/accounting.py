"""Token accounting of two arms over the same sessions: with diagnostic turns, without them, and over the pairs that both finished.

A session that failed a gate is played to its end, and its later turns cost tokens without doing work. So a ratio of totals says
what was spent, a ratio without those turns what was spent before the verdict, and neither compares equal work: only pairs in which
both arms passed do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eval.suites.base import Result


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens (input + output) of one arm over its sessions.

    ``strict`` counts passed sessions that also kept below the token limit: a last answer that was let finish may pass the task and
    still break the budget.
    """

    sessions: int
    passed: int
    complete: int
    strict: int
    tokens: int
    diagnostic: int

    @property
    def without(self) -> int:
        """Tokens up to and with the turn of the verdict."""
        return self.tokens - self.diagnostic


@dataclass(frozen=True, slots=True)
class Compared:
    """One arm against another, by ratios of tokens; None where the other arm spent none or no pair was finished by both."""

    whole: float | None
    without: float | None
    finished: float | None
    pairs: int
    finished_pairs: int


def spending(results: Sequence[Result]) -> Spending:
    """What an arm spent and passed."""
    return Spending(
        sessions=len(results), passed=sum(r.core for r in results), complete=sum(r.complete for r in results),
        strict=sum(r.core and not r.over_limit for r in results), tokens=sum(r.tokens for r in results),
        diagnostic=sum(r.diagnostic_tokens for r in results),
    )  # fmt: skip


def compare(arm: Sequence[Result], other: Sequence[Result]) -> Compared:
    """Ratios of ``arm`` to ``other`` over the sessions (item and repeat) that both played."""
    theirs = {(r.item, r.repeat): r for r in other}
    pairs = [(r, theirs[r.item, r.repeat]) for r in arm if (r.item, r.repeat) in theirs]
    both = [(a, b) for a, b in pairs if a.core and b.core]
    return Compared(
        whole=_ratio(sum(a.tokens for a, _ in pairs), sum(b.tokens for _, b in pairs)),
        without=_ratio(
            sum(a.tokens - a.diagnostic_tokens for a, _ in pairs), sum(b.tokens - b.diagnostic_tokens for _, b in pairs)
        ),
        finished=_ratio(sum(a.tokens for a, _ in both), sum(b.tokens for _, b in both)),
        pairs=len(pairs), finished_pairs=len(both),
    )  # fmt: skip


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
