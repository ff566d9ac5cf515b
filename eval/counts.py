"""What the report counts beside the metrics: why episodes failed, how answers fell, who spent the tokens, what prompted reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from envs.measures import answers
from eval.metrics import Row

FUNNEL = ("accessible", "suspected", "located", "used")
HOW = {
    "abstained": "withheld the answer",
    "stale": "stale value",
    "off_target": "another value of the view",
    "fabricated": "fabricated value",
    "absent": "slot missing or repeated",
}


def cause(row: Row) -> str | None:
    """Why an episode failed, told from log and views; None if it is right.

    The first that applies: cut short, then for a damaged probe where the funnel ends, then what the first wrong answer was.
    """
    s = row.score
    if s.task_correct:
        return "right, wrong memory left standing" if s.mended is False else None
    if s.reason != "answered":
        return f"cut short: {s.reason}"
    wrong = next((c for c in s.checks if c.verdict != "right"), None)
    if wrong is None:
        return "nothing to check"
    if row.detects and not s.funnel["located"]:
        if not s.funnel["accessible"]:
            return "evidence out of reach"
        if s.reads:
            return "wrong evidence read"
        return "damage not suspected" if not s.funnel["suspected"] else "withheld the answer unread"
    if row.detects and wrong.turn == min(c.turn for c in s.checks):
        return "evidence read, not used"
    if wrong.never:
        return "invented a value never stated"
    place = "in view" if wrong.in_view else "out of view"
    return f"{HOW.get(wrong.how, wrong.how)}, value {place}"


def counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Plain counts of one arm: funnel, triggers of reads, terminations, calls, tokens by spender, answer split, failures by cause."""
    rows = list(rows)
    damaged = [r for r in rows if r.detects]
    mendable = [r for r in damaged if r.score.mended is not None]
    calls: dict[str, Counter[str]] = {}
    split: dict[str, Counter[str]] = {}
    for row in rows:
        for tool, outcomes in row.score.calls.items():
            calls.setdefault(tool, Counter()).update(outcomes)
        for where, wording, answer in answers(row.score):
            split.setdefault(f"{where}, {wording}", Counter())[answer] += 1
    return {
        "episodes": len(rows),
        "funnel": {
            "damaged": len(damaged),
            **{step: sum(r.score.funnel[step] for r in damaged) for step in FUNNEL},
            "to_mend": len(mendable),
            "mended": sum(bool(r.score.mended) for r in mendable),
        },
        "triggers": dict(Counter(read.trigger for r in rows for read in r.score.reads)),
        "spent": dict(sum((Counter(r.score.spent) for r in rows), Counter())),
        "reasons": dict(Counter(r.score.reason for r in rows)),
        "calls": {tool: dict(found) for tool, found in sorted(calls.items())},
        "rewrites": sum(r.score.rewrites for r in rows),
        "causes": dict(Counter(why for r in rows if (why := cause(r)) is not None)),
        "answer_split": {where: dict(found) for where, found in sorted(split.items())},
    }
