"""Where managing the context begins to pay: tokens and correctness against plain history, by length of the session.

For every band of length, the cumulative tokens of an arm over those of the plain arm on the same samples, with its interval. The
crossover is the shortest band from which on the interval, over the samples that both finished, lies below 1 in every longer band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.lengths import LENGTHS
from envs.stats import estimate
from eval.metrics import METRICS, Row, ratio_to
from eval.plots import tokens_by_length
from eval.tables import Table, cell, section, table, text

BANDS = tuple(name for name, _ in LENGTHS)
UNTOLD = "no band whose interval lies below 1"


def crossover(rows: Mapping[str, Sequence[Row]], plain: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``{source: {arm: {"bands": {band: {"tokens", "finished", "task_correct", "plain_task_correct"}}, "from": band or None}}}``.

    ``tokens`` is the ratio to the plain arm, ``finished`` the same over the samples that both arms finished with an answer (None where
    there are none): an episode that ended at a limit spent few tokens for a bad reason. Empty without the plain arm.
    """
    found: dict[str, Any] = {}
    for source in ("probe", "session"):
        ours = {arm: [r for r in held if r.source == source] for arm, held in rows.items()}
        for arm, held in ours.items():
            if arm == plain or not ours.get(plain):
                continue
            bands = {band: value for band in BANDS if (value := _band(held, ours[plain], band, options))}
            if bands:
                found.setdefault(source, {})[arm] = {"bands": bands, "from": _first(bands)}
    return found


def _band(rows: Sequence[Row], plain: Sequence[Row], band: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    theirs = {r.key: r for r in plain if r.length == band}
    mine = [r for r in rows if r.key in theirs]
    if not mine:
        return None
    prefix = "session_" if mine[0].source == "session" else ""
    ratios = ratio_to(mine, list(theirs.values()))
    tokens, finished = (
        estimate(ratios[name][1], bounds=None, **options) if name in ratios else None
        for name in (f"{prefix}tokens_ratio_to_plain", f"{prefix}finished_tokens_ratio_to_plain")
    )
    correct = METRICS["task_correct"]
    both = [estimate(correct.units(side), bounds=correct.bounds, **options) for side in (mine, [theirs[r.key] for r in mine])]
    if tokens is None or both[0] is None or both[1] is None:
        return None
    return {
        "tokens": tokens.as_dict(),
        "finished": None if finished is None else finished.as_dict(),
        "task_correct": both[0].as_dict(),
        "plain_task_correct": both[1].as_dict(),
    }


def _first(bands: Mapping[str, Any]) -> str | None:
    """The shortest band from which on every band's interval of tokens, of episodes that both finished, lies below 1."""
    first = None
    for band in reversed(list(bands)):
        hi = (bands[band]["finished"] or {"hi": None})["hi"]
        if hi is None or hi >= 1:
            break
        first = band
    return first


def crossover_section(details: Mapping[str, Any]) -> dict[str, Any] | None:
    """The section of the report; None where the plain arm was not played."""
    tables: list[Table] = []
    lines: Mapping[str, Any] = {}
    for source, arms in details["crossover"].items():
        bands = [b for b in BANDS if any(b in found["bands"] for found in arms.values())]
        rows = []
        for arm, found in arms.items():
            values = [found["bands"].get(b, {}) for b in bands]
            cells = [cell("tokens_ratio_to_plain", v.get("tokens")) for v in values]
            finished = [cell("tokens_ratio_to_plain", v.get("finished")) for v in values]
            rights = [
                text("–") if not v else text(f"{v['task_correct']['mean']:.2f}", f"plain {v['plain_task_correct']['mean']:.2f}")
                for v in values
            ]
            each = [c for of_band in zip(cells, finished, rights, strict=True) for c in of_band]
            rows.append([arm, *each, text(found["from"] or UNTOLD)])
        head = ["arm", *(what for _ in bands for what in ("tokens / plain", "both finished", "right")), "pays from"]
        over = [*((band, 3) for band in bands), ("", 1)]
        tables.append(table({"title": f"{source}s by length", "head": head, "over": over, "rows": rows}))
        lines = arms if source == "session" or not lines else lines
    if not tables:
        return None
    words = [
        "Cumulative tokens over the plain arm's on the same samples, by length of the session, and how many episodes are right beside plain's. "
        "Both finished: over those that both arms ended with an answer, not at a limit. Pays from: the shortest band from which on every "
        "such interval lies below 1; cost says nothing without the correctness beside it."
    ]
    return section("Crossover by length", words, tables, tokens_by_length(lines, BANDS))
