"""Sections of the report on what may be concluded: verdicts, gates and the primary set, families, repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.inference import FAMILIES_IN_GENERAL
from eval.tables import Table, cell, section, table, text

RULES = {"better": "better", "lower": "lower", "not worse": "not worse"}


def verdict_sections(inference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of ``details.json``'s ``inference``; nothing where no arm is judged and nothing was played twice."""
    found = []
    if inference["verdicts"]:
        found += [_verdicts(inference), _claims(inference), _families(inference["claims"])]
    if inference["repeats"]:
        found.append(_repeats(inference["repeats"]))
    return found


def family_table(title: str, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    """Differences by family, with one left out, and in general; an entry is its name and what :func:`eval.inference.infer` told."""
    names = sorted({name for _, told in entries for name in told["families"] or ()})
    rows = []
    for name, told in entries:
        metric, left, general = told["metric"], told["leave_one_out"], told["in_general"]
        each = [cell(metric, (told["families"] or {}).get(n), signed=True, digits=3) for n in names]
        style = cell(metric, {"mean": left[0], "lo": left[0], "hi": left[1], "n": 0}, signed=True, digits=3) if left else None
        spoken = general is not None and general["n"] >= FAMILIES_IN_GENERAL
        rows.append(
            [
                name,
                *each,
                text("single family" if style is None else style["sub"]),
                cell(metric, general, signed=True, digits=3)
                if spoken
                else text("–", f"{len(names)} of {FAMILIES_IN_GENERAL} families"),
            ]
        )
    return table({"title": title, "head": ["difference", *names, "one family left out", "families in general (t)"], "rows": rows})


def _verdicts(inference: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        [
            arm,
            text(v["verdict"], apart=v["verdict"] == "shown"),
            text("; ".join(v["failed"]) or "–"),
            _p(v["p"]),
            _p(v["adjusted"]),
        ]
        for arm, v in inference["verdicts"].items()
    ]
    plain, protocol = inference["plain"], inference["protocol"] or "no managed reference among the arms"
    words = [
        f"An arm is shown to help only if it is not less right than plain history (at most {inference['margin']:g} worse), takes fewer "
        "tokens than it, and detects damage, recovers from it and keeps its memory free of conflicts better than the reference policy "
        "under the same protocol, each with its interval. Anything else is not shown.",
        f"Net benefit is against plain history: arm {plain}, and plain history on the arm's own weights where it is among the arms. "
        f"Plain history has nothing to detect or mend, so these are judged against {protocol}.",
        "A verdict needs all conditions at once: its p-value is the largest of theirs, adjusted by Holm over the judged arms. It is "
        "conditional on the families listed and on this backbone.",
    ]
    head = ["arm", "verdict", "what failed", "p", "p (Holm)"]
    return section("Verdicts", words, [table({"head": head, "rows": rows, "words": True})])


def _claims(inference: Mapping[str, Any]) -> dict[str, Any]:
    rows = []
    for c in inference["claims"]:
        gate = c["rule"] == "not worse"
        value = cell(c["metric"], c["difference"], signed=True, digits=3)
        value["apart"] = c["outcome"] in ("holds", "worse")
        differ = "–" if c["discordance"] is None else f"{c['discordance']:.0%}"
        claim = f"{c['metric'].replace('_', ' ')} {RULES[c['rule']]}" + (f" by {inference['margin']:g}" if gate else "")
        rows.append(
            [
                f"{c['arm']} - {c['against']}",
                text(f"{c['condition']}{' (gate)' if gate else ''}", claim),
                value,
                text(f"{c['level']:.0%}"),
                text(differ),
                _p(c["p"]),
                text("gate") if gate else _p(c["adjusted"]),
                text(c["outcome"]),
            ]
        )
    words = [
        "Correctness is a gate: tokens are looked at only where the lower end of its 90 % interval (one-sided 5 %) lies above minus "
        "the margin, else they are not tested. Every other line belongs to the primary set, adjusted by Holm over all of them; a "
        "cost claim carries its gate's p-value where that is the larger one. Outcome: which side of the hypothesis the interval lies on.",
    ]
    head = ["arms", "condition", "difference", "interval", "pairs that differ", "p", "p (Holm)", "outcome"]
    return section("Gates and primary set", words, [table({"head": head, "rows": rows})])


def _families(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    told = [(f"{c['arm']} - {c['against']}: {c['metric'].replace('_', ' ')}", c) for c in claims if c["difference"] is not None]
    words = [
        "The intervals above are conditional on the families listed. A word on families in general needs the t interval over the "
        f"family means (95 %, correctness 90 %), which takes them for a random draw, and at least {FAMILIES_IN_GENERAL} families."
    ]
    return section("The claims by family", words, [family_table("", told)] if told else [])


def _repeats(repeated: Mapping[str, Any]) -> dict[str, Any]:
    tables = []
    for metric in dict.fromkeys(name for found in repeated.values() for name in found):
        arms = {arm: found[metric] for arm, found in repeated.items() if metric in found}
        names = list(dict.fromkeys(name for found in arms.values() for name in found))
        rows = [[arm, *(cell(metric, found.get(name), digits=3) for name in names)] for arm, found in arms.items()]
        tables.append(table({"title": metric, "head": ["arm", *names], "rows": rows}))
    words = [
        "pass@1: share of successes. pass^k: chance that k repeats of a sample all succeed. Repeats are resampled with their base."
    ]
    return section("Repeats", words, tables)


def _p(value: float | None) -> dict[str, Any]:
    return text("–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}")
