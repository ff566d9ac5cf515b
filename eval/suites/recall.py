"""The table of the suites on layered context: was the needed value in view, was the reply right, what did the session cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from envs.profiles import get_profile
from envs.trajectory import Trajectory
from eval.suites.base import Item, Result, Row
from eval.suites.rules import asks_again


def measure(item: Item, trajectory: Trajectory) -> dict[str, Any]:
    """Sizes of inputs, and whether the reply asked for what had been said."""
    inputs = [i.tokens_in for i in trajectory.inferences]
    own = [i for i in trajectory.inferences if i.trained and i.kind != "maintenance"]
    budget = re.search(r"view_budget=(\d+)", trajectory.profile)
    stale = item.facts.get("stale")
    last = next(
        (v for i, v in zip(reversed(trajectory.inferences), reversed(list(trajectory.views())), strict=True) if i.trained), []
    )
    return {
        "peak": max(inputs, default=0), "last": own[-1].tokens_in if own else 0,
        "again": sum(asks_again(r) for n, r in trajectory.replies.items() if n in item.gates),
        "budget": int(budget[1]) if budget else get_profile(trajectory.profile.partition("[")[0]).view_budget,
        "stale": any(f in m.content for m in last for f in stale) if stale and last else None,
    }  # fmt: skip


def rows(results: Sequence[Result]) -> list[Row]:
    """One row an item: checks right and in view, tokens of the whole session, largest and last input."""
    made = []
    for name in dict.fromkeys(r.item for r in results):
        mine = [r for r in results if r.item == name]
        core = [t for r in mine for t in r.turns if t.judged and t.in_view is not None]
        # A turn that the arm never reached had nothing in view.
        reached = [t for t in core if t.inferences > 0 and t.tokens > t.forced_tokens]
        missed = [f"{t.turn + 1} {m}" for r in mine for t in r.turns for m in t.missed]
        made.append(
            {
                "lang": mine[0].lang, "arm": mine[0].arm, "part": name, "checks": len(core), "in view": sum(bool(t.in_view) for t in core),
                "right": sum(t.core for t in core), "old value in view too": mine[0].extra["stale"], "asks again": sum(r.extra["again"] for r in mine),
                "session tokens": sum(r.tokens for r in mine), "largest input": max(r.extra["peak"] for r in mine),
                "last input": max(r.extra["last"] for r in mine) if reached else None, "view budget": max(r.extra["budget"] for r in mine),
                "ended": ", ".join(dict.fromkeys(r.reason for r in mine)), "missed (turn, rule)": ", ".join(dict.fromkeys(missed)) or "-",
            }
        )  # fmt: skip
    return made


def notes(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """``layered`` against plain history of the same policy: tokens and recall, the article's two claims."""
    by = {(str(r["lang"]), *str(r["arm"]).partition("/")[::2], str(r.get("part"))): r for r in table}

    def number(row: Mapping[str, Any], column: str) -> int:
        return int(str(row[column]).replace(",", ""))

    lines = []
    for (lang, who, spec, part), row in by.items():
        plain = by.get((lang, who, "plain@1", part))
        if spec != "plain@1/layered" or not plain:
            continue
        a, b = number(plain, "session tokens"), number(row, "session tokens")
        told = [f"{number(r, 'in view')}/{number(r, 'checks')} in view, {number(r, 'right')} right" for r in (plain, row)]
        lines.append(
            f"{lang}, {who}, {part}: plain history {a:,} tokens ({told[0]}; {plain['ended']}), layered {b:,}, {b / a:.2f} of that ({told[1]})."
        )
    return lines
