"""Stored records of a session file -> figures of every arm under every condition, and the Markdown report. No model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import binomtest

from envs.session_run import CONDITIONS, DAMAGED, READING, CaseRecord, Condition
from envs.sessions import Case, score

REPORTED: tuple[tuple[Condition, str], ...] = (
    ("closed_book", "closed book (floor of guessing)"),
    ("whole_log", "whole log (ceiling)"),
    ("damaged", "damaged, no read-back (floor)"),
    ("damaged_read", "damaged, read-back"),
)
"""The four conditions that are always reported, with their headings."""
FAILURES = 60
"""Failures of an arm that the report lists."""
REPLY = 120
"""Characters of a reply in it."""


def figures(cases: Sequence[Case], records: Sequence[CaseRecord], plain: bool) -> dict[str, Any]:
    """One arm: ``{condition: {cases, expected, right, share, lo, hi, tokens, reading, no_read_back}}`` and ``false_alarms``.

    Replies are judged again here. A plain history (``plain``) has no read-back: its ``damaged_read`` is its ``damaged``, and says so.
    """
    by_id = {c.id: c for c in cases}
    found: dict[str, Any] = {}
    for condition in CONDITIONS:
        if condition == "whole_log_read":
            continue
        played: Condition = "damaged" if plain and condition == "damaged_read" else condition
        mine = [r for r in records if r.condition == played]
        right = sum(is_right(by_id[r.case], r) for r in mine)
        expected = sum(bool(c.injection) or condition not in DAMAGED for c in cases)
        found[condition] = {
            "cases": len(mine), "expected": expected, "right": right, **share(right, len(mine)),
            "tokens": sum(r.tokens for r in mine) / len(mine) if mine else None, "reading": sum(bool(r.reads) for r in mine),
            "no_read_back": plain and condition == "damaged_read",
        }  # fmt: skip
    mine = [r for r in records if r.condition == "whole_log_read"]
    alarms = sum(r.false_alarm for r in mine)
    found["false_alarms"] = None if plain else {
        "cases": len(mine), "expected": len(cases), "alarms": alarms, **share(alarms, len(mine)),
        "right": sum(is_right(by_id[r.case], r) for r in mine), "tokens": sum(r.tokens for r in mine) / len(mine) if mine else None,
    }  # fmt: skip
    return found


def share(count: int, of: int) -> dict[str, float | None]:
    """``share`` with its exact (Clopper-Pearson) 95 % interval; nothing of nothing is None."""
    if not of:
        return {"share": None, "lo": None, "hi": None}
    interval = binomtest(count, of).proportion_ci(0.95, method="exact")
    return {"share": count / of, "lo": float(interval.low), "hi": float(interval.high)}


def is_right(case: Case, record: CaseRecord) -> bool:
    """The verdict of today's judge on the stored reply; an episode that ended without an answer is wrong."""
    return record.reply is not None and score(case, record.reply)


def failures(cases: Sequence[Case], records: Sequence[CaseRecord]) -> list[dict[str, Any]]:
    """Wrong episodes that had a way to be right, each with whether what it needed was in its exact input.

    Closed book is left out, and the damaged view without read-back too, unless the arm has no other.
    """
    by_id = {c.id: c for c in cases}
    floors = {"closed_book"} | ({"damaged"} if any(r.condition in READING for r in records) else set())
    return [
        {
            "case": r.case, "condition": r.condition, "reason": r.reason, "needed": r.evidence,
            "needed_in_input": set(r.evidence) <= set(r.evidence_in_input) if r.evidence else None,
            "reads": r.reads, "reply": r.reply,
        }
        for r in records
        if r.condition not in floors and not is_right(by_id[r.case], r)
    ]  # fmt: skip


def by_damage(cases: Sequence[Case], records: Sequence[CaseRecord]) -> dict[str, dict[str, tuple[int, int]]]:
    """Operation of the damage -> damaged condition -> (right, cases)."""
    by_id = {c.id: c for c in cases}
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for r in records:
        if r.condition in DAMAGED:
            right, count = found.setdefault(r.op, {}).get(r.condition, (0, 0))
            found[r.op][r.condition] = (right + is_right(by_id[r.case], r), count + 1)
    return found


# ---- the report ---------------------------------------------------------------------------------------------------------------


def markdown(front: Sequence[str], warnings: Sequence[str], results: Mapping[str, Any]) -> str:
    """The report: front page, the table of conditions, cost, damage by kind, and what went wrong."""
    arms = results["arms"]
    lines = [f"# Session file {results['file']}", "", *(f"- {line}" for line in front), ""]
    for warning in warnings:
        lines += [f"> **{warning}**", ""]
    lines += [
        "## Conditions",
        "",
        "Right replies over sessions, share and exact 95 % interval. A false alarm is a read-back on the whole log.",
        "",
    ]
    head = [title for _, title in REPORTED]
    lines += _rows(["arm", *head, "false alarms (whole log, read-back)"])
    for name, found in arms.items():
        cells = [_cell(found[c], "right") for c, _ in REPORTED]
        alarms = "no read-back" if found["false_alarms"] is None else _cell(found["false_alarms"], "alarms")
        lines.append(f"| {' | '.join([name, *cells, alarms])} |")
    if any(found["damaged_read"]["no_read_back"] for found in arms.values()):
        lines += ["", "† Plain history has no read-back: the figure is that of the damaged view."]
    lines += ["", "## Tokens a session", "", "Input and output over all inferences, undiscounted.", ""]
    lines += _rows(["arm", *head, "whole log, read-back", "read back in the damaged view"])
    for name, found in arms.items():
        cells = [_amount(found[c]["tokens"]) for c, _ in REPORTED]
        alarms = _amount(found["false_alarms"]["tokens"]) if found["false_alarms"] else "-"
        reading = "-" if found["false_alarms"] is None else f"{found['damaged_read']['reading']}/{found['damaged_read']['cases']}"
        lines.append(f"| {' | '.join([name, *cells, alarms, reading])} |")
    lines += _damage(results)
    lines += _failures(results)
    return "\n".join(lines) + "\n"


def _rows(head: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]


def _cell(found: Mapping[str, Any], field: str) -> str:
    if not found["expected"]:
        return "no session has damage"
    if not found["cases"]:
        return "not played"
    text = f"{found[field]}/{found['cases']} = {found['share']:.2f} [{found['lo']:.2f}, {found['hi']:.2f}]"
    owed = found["expected"] - found["cases"]
    return text + (" †" if found.get("no_read_back") else "") + (f" ({owed} owed)" if owed else "")


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _damage(results: Mapping[str, Any]) -> list[str]:
    ops = sorted({op for found in results["by_damage"].values() for op in found})
    if not ops:
        return []
    lines = [
        "",
        "## By kind of damage",
        "",
        "Right replies without read-back → with it.",
        "",
        *_rows(["damage", *results["by_damage"]]),
    ]
    for op in ops:
        cells = []
        for found in results["by_damage"].values():
            sides = [found.get(op, {}).get(c) for c in DAMAGED]
            cells.append(" → ".join("-" if side is None else f"{side[0]}/{side[1]}" for side in sides))
        lines.append(f"| {' | '.join([op, *cells])} |")
    return lines


def _failures(results: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, found in results["failures"].items():
        if not found:
            continue
        lines += ["", f"## Wrong replies of {name}", ""]
        lines += [
            "| session | condition | needed events | in the input | read | reply |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for f in found[:FAILURES]:
            inside = {True: "yes", False: "no", None: "-"}[f["needed_in_input"]]
            needed, reads = (" ".join(f"e{n}" for n in f[field]) or "-" for field in ("needed", "reads"))
            lines.append(f"| {f['case']} | {f['condition']} | {needed} | {inside} | {reads} | {_reply(f)} |")
        if len(found) > FAILURES:
            lines += ["", f"… and {len(found) - FAILURES} more in results.json."]
    return lines


def _reply(failure: Mapping[str, Any]) -> str:
    if failure["reply"] is None:
        return f"none: {failure['reason']}"
    text = " ".join(failure["reply"].split()).replace("|", "\\|")
    return text if len(text) <= REPLY else text[:REPLY] + " …"
