"""Sections, tables and cells of the reports, as both templates take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AMOUNTS = ("tokens", "peak", "prefill", "verdict_tokens", "verification_tokens")
HEADINGS = {
    "tokens_ratio_to_plain": "tokens / plain",
    "peak_ratio_to_plain": "peak / plain",
    "verdict_tokens_ratio_to_plain": "tokens / plain to the verdict",
    "finished_tokens_ratio_to_plain": "tokens / plain, both finished",
    "detection_recall": "recall",
    "detection_false_alarm": "false alarm",
    "detection_f1": "F1",
}

Cell = dict[str, Any]
Table = dict[str, Any]


def section(title: str, text: Sequence[str], tables: Sequence[Table], figure: str | None = None) -> dict[str, Any]:
    """A heading with paragraphs and tables; ``figure`` is an SVG."""
    return {"title": title, "text": text, "tables": tables, "figure": figure}


def table(given: Table) -> Table:
    """All fields of a table. ``flat`` is its heading in one line, with the group before names that stand under several."""
    whole = {"title": "", "over": [], "note": "", "words": False, **given}
    groups = ["", *(group for group, span in whole["over"] for _ in range(span))]
    head = list(whole["head"])
    whole["flat"] = [
        f"{group} {name}" if head.count(name) > 1 else name
        for name, group in zip(head, groups if whole["over"] else head, strict=True)
    ]
    return whole


def cell(name: str, value: Mapping[str, Any] | None, *, signed: bool = False, digits: int = 2) -> Cell:
    """A value of metric ``name`` with interval and count; ``signed`` for a difference, coloured where the interval leaves out 0."""
    if value is None:
        return text("–")
    whole = name.removeprefix("session_") in AMOUNTS
    style = ("+" if signed else "") + (",.0f" if whole else f".{digits}f")
    lo, hi = value["lo"], value["hi"]
    interval = "[–]" if lo is None or hi is None else f"[{lo:{style}}, {hi:{style}}]"
    apart = signed and lo is not None and hi is not None and (lo > 0 or hi < 0)
    return text(f"{value['mean']:{style}}", interval, f"n={value['n']}", apart)


def text(shown: object, sub: str = "", size: str = "", apart: bool = False) -> Cell:
    """A cell of words."""
    return {"text": str(shown), "sub": sub, "size": size, "apart": apart}
